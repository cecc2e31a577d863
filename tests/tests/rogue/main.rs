//! A member of the swarm that does not keep to the rules, against agents that do: whatever it does with contexts, pulls,
//! events and words, memory stays bounded, deadlines hold, and every answer is what it would have been.
//!
//! Host a has the request and takes no work, b (and c) work honestly, x is the rogue.

mod asks;
mod events;
mod holders;
mod words;

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{FOUND_WITHIN, resident_bytes};
use idlewild_tests::{
    Agent, Answer, Cluster, FAKE_MODEL, Fake, Host, Lab, Rogue, Stream, completion, undisturbed, within,
};

/// Honest workers.
const HONEST: Fake = Fake { prefill_tps: 2000.0, decode_tps: 50.0, load_ms: 20 };

/// A rogue that gets the request, since it is a little faster.
const QUICKER: Fake = Fake { decode_tps: 60.0, ..HONEST };

/// One that does not.
const SLOWER: Fake = Fake { prefill_tps: 200.0, decode_tps: 10.0, load_ms: 20 };

/// Eight seconds of an honest worker.
const TOKENS: u32 = 400;

/// A context that is worth a transfer: 12 MB.
const WORDS: usize = 600;

/// An origin, honest workers, and a rogue.
struct Scene {
    /// The origin first.
    cluster: Cluster,
    rogue: Rogue,
    /// The rogue's.
    host: Host,
}

impl Scene {
    /// One host for each name, the rogue's last.
    fn new(lab: &Lab, names: &[&str], rates: Fake) -> Result<Self> {
        let (_, hosts) = lab.home(names)?;
        let (host, honest) = hosts.split_last().context("a host for the rogue")?;
        let cluster = Cluster::new(lab, honest, |number, launch| {
            let launch = launch.fake(HONEST);
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        for worker in &cluster.0[1..] {
            cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        let knows: Vec<&Agent> = cluster.0[1..].iter().collect();
        let rogue = Rogue::join(host, &cluster.0[0], &knows, rates)?;
        Ok(Self { cluster, rogue, host: host.clone() })
    }

    fn origin(&self) -> &Agent {
        &self.cluster.0[0]
    }

    fn worker(&self, number: usize) -> &Agent {
        &self.cluster.0[number]
    }

    /// A request that has begun at `worker`.
    fn begun_at(&self, worker: &str, prompt: &str) -> Result<Running> {
        let running = self.begun_anywhere(prompt)?;
        let at = self.worker_of(&running.request)?;
        ensure!(at == worker, "it runs at {at}, not {worker}: {:#?}", self.origin().explain(&running.request)?);
        Ok(running)
    }

    /// A request that has begun, read by a thread.
    fn begun_anywhere(&self, prompt: &str) -> Result<Running> {
        let mut stream = self.origin().ask(&completion(FAKE_MODEL, prompt, TOKENS))?;
        stream.read_pieces(15)?;
        let request = stream.request()?.to_owned();
        Ok(Running { request, reader: thread::spawn(move || Stream::finish(stream)?.whole()) })
    }

    fn worker_of(&self, request: &str) -> Result<String> {
        let (worker, _) = within(Duration::from_secs(5), "a worker", || {
            Ok(self.origin().explain(request)?.assignments.last().map(|last| last.worker.clone()))
        })?;
        Ok(worker)
    }
}

/// A request under way.
struct Running {
    request: String,
    reader: thread::JoinHandle<Result<Answer>>,
}

impl Running {
    /// The whole answer, which must be `expected` to the letter.
    fn exactly(self, expected: &str) -> Result<Answer> {
        let answer = self.reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")?;
        ensure!(answer.text() == expected, "{:?} is not {expected:?}", answer.text());
        ensure!(answer.finish.as_deref() == Some("length"), "{answer:?}");
        Ok(answer)
    }
}

/// A prompt of its own for each number, and what the fake answers to it.
fn question(number: usize) -> Result<(String, String)> {
    let words: Vec<String> = (0..WORDS).map(|word| format!("w{number}x{word}")).collect();
    let prompt = words.join(" ");
    let expected = undisturbed(&prompt, TOKENS)?;
    Ok((prompt, expected))
}

/// Bytes that an agent and its engine hold.
fn memory(agent: &Agent) -> Result<u64> {
    let engine = agent.engine_pid().map(resident_bytes).transpose()?;
    Ok(resident_bytes(agent.pid())? + engine.unwrap_or(0))
}

/// Fails where an agent holds `most_mb` megabytes more than `before`.
fn has_grown_little(agent: &Agent, before: u64, most_mb: u64) -> Result<()> {
    let grown_mb = memory(agent)?.saturating_sub(before) / 1_000_000;
    ensure!(grown_mb < most_mb, "{} grew by {grown_mb} MB", agent.host().name());
    Ok(())
}
