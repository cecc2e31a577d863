//! The coordinator dies, and nobody but the next one takes notice.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::{Agent, Answer, Cluster, FAKE_MODEL, Fake, Verdict, completion, in_lab};

/// The promise.
const NEW_LEADER_WITHIN: Duration = Duration::from_secs(3);

/// Longer than any gap between two tokens at 40 a second on a loaded machine, far shorter than noticing a death.
const NO_PAUSE: Duration = Duration::from_millis(500);

const STREAMS: usize = 4;

#[test]
fn four_streams_do_not_notice_that_the_coordinator_is_killed() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c", "d"])?;
        let (mut doomed, agents) = led_by_a_bare_one(Cluster::new(lab, &hosts, |_, launch| Ok(launch))?)?;
        let mut streams = Vec::new();
        for number in 0..STREAMS {
            let mut stream =
                agents[number % agents.len()].ask(&completion(FAKE_MODEL, &format!("story {number}"), 250))?;
            stream.read_pieces(20)?;
            streams.push(thread::spawn(move || stream.finish()?.whole()));
        }
        let died = Instant::now();
        doomed.kill()?;
        for agent in &agents {
            let (new, _) = agent.until(Duration::from_secs(6), "another coordinator", |status| {
                status.coordinator.clone().filter(|leader| Some(leader.leader.as_str()) != doomed.peer().ok())
            })?;
            let took = died.elapsed();
            ensure!(took <= NEW_LEADER_WITHIN, "{} leads after {took:?}", new.leader);
        }
        let led = Instant::now();
        for stream in streams {
            let answer: Answer = join(stream)?;
            ensure!(answer.moves == 0, "moved: {answer:?}");
            ensure!(answer.longest_pause_within(died, led) < NO_PAUSE, "paused: {answer:?}");
            ensure!(answer.finish.as_deref() == Some("length"), "{answer:?}");
        }
        ensure!(agents[0].answer(&completion(FAKE_MODEL, "afterwards", 5))?.done, "requests are placed again");
        Ok(())
    })
}

/// The leader apart from the others, and without a model: its death is that of a coordinator, not of a worker. The others
/// have one after a restart, one after the other: restarted all at once they would be a majority without the leader, find
/// each other first, and rightly elect another.
fn led_by_a_bare_one(mut cluster: Cluster) -> Result<(Agent, Vec<Agent>)> {
    let leader = cluster.0.remove(cluster.leader(FOUND_WITHIN)?);
    let id = leader.peer()?.to_owned();
    let mut agents = Vec::new();
    let others = cluster.0.len();
    for mut agent in cluster.0 {
        agent.stop()?;
        let launch = agent.launch().clone().fake(Fake::decoding(40.0));
        drop(agent);
        let agent = launch.up()?;
        agent.until_connected(others, FOUND_WITHIN)?;
        agents.push(agent);
    }
    for agent in &agents {
        agent.until(FOUND_WITHIN, "the same coordinator as before", |status| {
            (status.coordinator.as_ref()?.leader == id).then_some(())
        })?;
    }
    Ok((leader, agents))
}

fn join(stream: thread::JoinHandle<Result<Answer>>) -> Result<Answer> {
    stream.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")
}
