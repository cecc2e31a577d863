//! Workers that vanish: the answer goes on elsewhere, others do not notice, and the lost one is avoided until it is back.
//!
//! With the fake engine, whose answer is a function of the prompt alone; `real_loss.rs` compares a real model's.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{FOUND_WITHIN, PeerStatus};
use idlewild_tests::{
    Agent, Answer, Cluster, FAKE_MODEL, Fake, Filter, Lab, Launch, Signal, Verdict, completion, in_lab, within,
};

/// A killed peer is noticed within this, a frozen one within the next; the promises of the swarm.
const KILL_SEEN_WITHIN: Duration = Duration::from_secs(2);
const FREEZE_SEEN_WITHIN: Duration = Duration::from_secs(3);

/// Between two tokens when nothing happens: generous for a loaded machine, far below noticing a death.
const NO_PAUSE: Duration = Duration::from_millis(500);

/// An origin that takes no work, and `workers` that do.
fn cluster(lab: &Lab, workers: usize, fake: Fake) -> Result<Cluster> {
    let names = ["a", "b", "c", "d"];
    let (_, hosts) = lab.home(&names[..=workers])?;
    let cluster = Cluster::new(lab, &hosts, |number, launch| {
        let launch = launch.fake(fake);
        Ok(if number == 0 { launch.busy() } else { launch })
    })?;
    for worker in &cluster.0[1..] {
        cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
    }
    Ok(cluster)
}

/// Waits until the origin knows who works on a stream's request; gives its place in the cluster.
fn worker_of(cluster: &Cluster, request: &str) -> Result<usize> {
    let (worker, _) = within(Duration::from_secs(5), "a worker", || {
        Ok(cluster.0[0].explain(request)?.assignments.last().map(|last| last.worker.clone()))
    })?;
    cluster.position(&worker)
}

fn finish(stream: thread::JoinHandle<Result<Answer>>) -> Result<Answer> {
    stream.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")
}

#[test]
fn another_workers_stream_does_not_notice_a_death_and_the_dead_ones_goes_on() -> Verdict {
    in_lab(|lab| {
        let mut cluster = cluster(lab, 2, Fake::decoding(50.0))?;
        let expected: Vec<String> = (0..2).map(|n| undisturbed(&cluster, n)).collect::<Result<_>>()?;
        let (mut streams, mut workers) = (Vec::new(), Vec::new());
        for number in 0..2 {
            let mut stream = cluster.0[0].ask(&story(number))?;
            stream.read_pieces(20)?;
            workers.push(worker_of(&cluster, stream.request()?)?);
            streams.push(thread::spawn(move || stream.finish()?.whole()));
        }
        ensure!(workers[0] != workers[1], "two idle workers share two requests");
        let died = Instant::now();
        cluster.0[workers[0]].kill()?;
        let seen = cluster.0[0].until_gone(cluster.0[workers[0]].peer()?, Duration::from_secs(5))?;
        let noticed = Instant::now();
        ensure!(seen <= KILL_SEEN_WITHIN, "a kill was noticed after {seen:?}");
        let answers = streams.into_iter().map(finish).collect::<Result<Vec<_>>>()?;
        for (answer, expected) in answers.iter().zip(&expected) {
            ensure!(
                answer.text() == *expected && answer.finish.as_deref() == Some("length"),
                "{answer:?} not {expected}"
            );
        }
        ensure!(answers[0].moves == 1 && answers[0].worker.as_deref() == Some(cluster.0[workers[1]].peer()?), "moved");
        ensure!(answers[0].longest_pause_within(died, noticed) < KILL_SEEN_WITHIN, "paused too long: {:?}", answers[0]);
        ensure!(answers[1].moves == 0 && answers[1].longest_pause_within(died, noticed) < NO_PAUSE, "{:?}", answers[1]);
        Ok(())
    })
}

fn story(number: usize) -> serde_json::Value {
    completion(FAKE_MODEL, &format!("story {number}"), 200)
}

fn undisturbed(cluster: &Cluster, number: usize) -> Result<String> {
    let answer = cluster.0[0].answer(&story(number))?;
    ensure!(answer.moves == 0, "nothing disturbs it");
    Ok(answer.text())
}

#[test]
fn a_worker_frozen_before_the_first_token_is_replaced_and_then_avoided() -> Verdict {
    in_lab(|lab| {
        // Reading the prompt takes two seconds: time to freeze before the first token.
        let slow = Fake { prefill_tps: 20.0, decode_tps: 100.0, load_ms: 20 };
        let cluster = cluster(lab, 2, slow)?;
        let prompt = vec!["word"; 40].join(" ");
        let asked = Instant::now();
        let stream = cluster.0[0].ask(&completion(FAKE_MODEL, &prompt, 20))?;
        let frozen = worker_of(&cluster, stream.request()?)?;
        cluster.0[frozen].signal(Signal::STOP)?;
        let answer = stream.finish()?.whole()?;
        ensure!(answer.moves == 1, "moved once: {answer:?}");
        // Until the freeze is seen, and the prompt read again.
        let budget = FREEZE_SEEN_WITHIN + Duration::from_secs(4);
        ensure!(answer.first_after()? < budget, "the first token came after {:?}", answer.first_after()?);
        let again = cluster.0[0].answer(&completion(FAKE_MODEL, &prompt, 20))?;
        ensure!(again.moves == 0 && again.worker == answer.worker, "the frozen one is avoided: {again:?}");
        ensure!(again.text() == answer.text(), "and the answer is the same");
        ensure!(asked.elapsed() < Duration::from_secs(20), "in all {:?}", asked.elapsed());

        // Resumed, it is trusted again.
        cluster.0[frozen].signal(Signal::CONT)?;
        cluster.0[0].until_serving(cluster.0[frozen].peer()?, FOUND_WITHIN)?;
        Ok(())
    })
}

#[test]
fn a_killed_peer_is_not_revived_by_gossip_and_is_back_at_once_when_it_returns() -> Verdict {
    in_lab(|lab| {
        let mut cluster = cluster(lab, 3, Fake::decoding(400.0))?;
        let mut doomed = cluster.0.pop().context("three workers")?;
        let id = doomed.peer()?.to_owned();
        doomed.kill()?;
        for agent in &cluster.0 {
            let seen = agent.until_gone(&id, Duration::from_secs(5))?;
            ensure!(seen <= KILL_SEEN_WITHIN, "noticed after {seen:?}");
        }
        // Several rounds of anti-entropy (each a few seconds), with requests all the while.
        let gossiping = Instant::now();
        while gossiping.elapsed() < Duration::from_secs(10) {
            for agent in &cluster.0 {
                let status = agent.status()?;
                ensure!(!status.of(&id).is_some_and(PeerStatus::is_serving), "revived: {:?}", status.of(&id));
            }
            let answer = cluster.0[0].answer(&completion(FAKE_MODEL, "anyone", 5))?;
            ensure!(answer.worker.as_deref() != Some(id.as_str()) && answer.moves == 0, "{answer:?}");
        }
        let back = Instant::now();
        let doomed = doomed.again()?;
        ensure!(doomed.peer()? == id, "the same peer");
        for agent in &cluster.0 {
            agent.until_serving(&id, Duration::from_secs(5))?;
        }
        ensure!(back.elapsed() < Duration::from_secs(6), "routable {:?} after its start", back.elapsed());
        Ok(())
    })
}

#[test]
fn requests_flow_while_a_restarted_peers_old_identity_is_still_listed() -> Verdict {
    in_lab(|lab| {
        let mut cluster = cluster(lab, 1, Fake::decoding(400.0))?;
        let mut old = cluster.0.pop().context("a worker")?;
        let (old_id, host) = (old.peer()?.to_owned(), old.host().clone());
        old.kill()?;
        // A new machine under the old address: new home, new id, while the old id has not even been missed.
        let fresh = Launch::named(lab, &host, "fresh")?.fake(Fake::decoding(400.0));
        let joined = idlewild_tests::agent::join(&fresh, &cluster.0[0].invite()?)?;
        ensure!(joined.status.success(), "join failed: {}", String::from_utf8_lossy(&joined.stderr));
        let fresh = fresh.up()?;
        ensure!(fresh.peer()? != old_id, "a new id");
        cluster.0[0].until_serving(fresh.peer()?, FOUND_WITHIN)?;
        let answer = cluster.0[0].answer(&completion(FAKE_MODEL, "hello", 10))?;
        ensure!(answer.worker.as_deref() == Some(fresh.peer()?), "{answer:?}");
        Ok(())
    })
}

#[test]
fn a_host_that_is_gone_is_replaced_unattended_and_welcome_when_its_cable_is_back() -> Verdict {
    in_lab(|lab| {
        let cluster = cluster(lab, 2, Fake::decoding(50.0))?;
        let mut stream = cluster.0[0].ask(&story(0))?;
        stream.read_pieces(20)?;
        let gone = worker_of(&cluster, stream.request()?)?;
        let (gone, other) = (&cluster.0[gone], &cluster.0[3 - gone]);
        let cut = Instant::now();
        gone.host().cut()?;
        let answer = stream.finish()?.whole()?;
        ensure!(answer.moves == 1 && answer.worker.as_deref() == Some(other.peer()?), "{answer:?}");
        ensure!(answer.longest_pause_within(cut, cut + FREEZE_SEEN_WITHIN) < FREEZE_SEEN_WITHIN, "{answer:?}");
        // Beyond the longest timer of the swarm's memory of connections, the model is still served.
        while cut.elapsed() < Duration::from_secs(15) {
            let answer = cluster.0[0].answer(&completion(FAKE_MODEL, "meanwhile", 10))?;
            ensure!(answer.worker.as_deref() == Some(other.peer()?) && answer.moves == 0, "{answer:?}");
        }
        gone.host().restore()?;
        let took = cluster.0[0].until_serving(gone.peer()?, Duration::from_secs(40))?;
        ensure!(took < Duration::from_secs(35), "welcome after {took:?}");
        Ok(())
    })
}

#[test]
fn a_stream_goes_on_through_thirty_percent_loss() -> Verdict {
    in_lab(|lab| {
        let cluster = cluster(lab, 2, Fake::decoding(30.0))?;
        // Twice as long as the loss lasts.
        let question = completion(FAKE_MODEL, "a long story", 400);
        let expected = cluster.0[0].answer(&question)?.text();
        let mut stream = cluster.0[0].ask(&question)?;
        stream.read_pieces(20)?;
        let lossy = Filter::Loss { percent: 30 };
        cluster.0[0].host().impose(lossy)?;
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            stream.next_piece()?.context("the stream goes on")?;
        }
        cluster.0[0].host().lift(lossy)?;
        let answer = stream.finish()?.whole()?;
        ensure!(answer.text() == expected, "{answer:?} is not {expected}");
        Ok(())
    })
}

#[test]
fn processes_and_streams_survive_resets_and_the_loss_of_one_transport() -> Verdict {
    in_lab(|lab| {
        let cluster = cluster(lab, 1, Fake::decoding(40.0))?;
        for filter in [Filter::ResetTcp, Filter::NoUdp] {
            let mut stream = cluster.0[0].ask(&story(0))?;
            stream.read_pieces(10)?;
            cluster.0[1].host().impose(filter)?;
            thread::sleep(Duration::from_millis(500));
            cluster.0[1].host().lift(filter)?;
            let answer = stream.finish()?;
            ensure!(answer.done && (answer.finish.is_some() || answer.error.is_some()), "a clear end: {answer:?}");
            ensure!(answer.error.is_none(), "half a second is no death: {answer:?}");
        }
        ensure!(cluster.0.iter().all(Agent::is_running), "both live");
        cluster.0[0].until_serving(cluster.0[1].peer()?, FOUND_WITHIN)?;
        ensure!(cluster.0[0].answer(&completion(FAKE_MODEL, "after", 5))?.done, "and serve");
        Ok(())
    })
}

#[test]
fn a_hundred_streams_in_a_row_all_end_with_a_reason() -> Verdict {
    in_lab(|lab| {
        let cluster = cluster(lab, 1, Fake::decoding(4000.0))?;
        let mut first = None;
        for number in 0..100 {
            let answer = cluster.0[0].answer(&completion(FAKE_MODEL, "the same", 200))?;
            ensure!(answer.finish.as_deref() == Some("length"), "stream {number}: {answer:?}");
            let counted = answer.usage.as_ref().and_then(|usage| usage["completion_tokens"].as_u64());
            ensure!(counted == Some(200), "stream {number}: {counted:?} tokens");
            let text = answer.text();
            ensure!(*first.get_or_insert(text.clone()) == text, "stream {number} differs: {text}");
        }
        Ok(())
    })
}

#[test]
fn without_an_eligible_peer_the_error_is_clear_and_comes_within_two_seconds() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let cluster = Cluster::new(lab, &hosts, |_, launch| Ok(launch.fake(Fake::decoding(100.0)).busy()))?;
        let asked = Instant::now();
        let mut stream = cluster.0[0].ask(&completion(FAKE_MODEL, "anyone there", 10))?;
        let took = asked.elapsed();
        ensure!(stream.status() == 503 && took < Duration::from_secs(2), "{} after {took:?}", stream.status());
        let error = stream.json()?;
        let message = error["error"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("owner"), "says why: {message}");
        let whole = cluster.0[0].client()?.post(
            "/v1/completions",
            &serde_json::json!({ "model": FAKE_MODEL, "prompt": "anyone", "max_tokens": 5 }),
        )?;
        ensure!(whole.status == 503 && whole.header("retry-after").is_some(), "{whole:?}");
        Ok(())
    })
}

/// A client that goes away must not leave an engine busy, near or far.
#[test]
fn a_client_that_hangs_up_stops_the_engine_across_the_hop_within_a_second() -> Verdict {
    in_lab(|lab| {
        let cluster = cluster(lab, 1, Fake::decoding(20.0))?;
        let mut stream = cluster.0[0].ask(&completion(FAKE_MODEL, "a long one", 1000))?;
        stream.read_pieces(10)?;
        ensure!(cluster.0[1].status()?.engine.running == 1, "it runs");
        let hung_up = Instant::now();
        drop(stream);
        cluster.0[1].until(Duration::from_secs(3), "an idle engine", |status| {
            (status.engine.running == 0 && status.jobs_running == 0).then_some(())
        })?;
        ensure!(hung_up.elapsed() < Duration::from_secs(1), "idle after {:?}", hung_up.elapsed());
        Ok(())
    })
}
