//! The engine's process dies, again and again, or its owner comes back: the agent lives, answers go on.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{FOUND_WITHIN, Status, cpu_time};
use idlewild_tests::{Agent, Cluster, FAKE_MODEL, Fake, Launch, Verdict, completion, eventually, in_lab};

/// The scenario's number.
const KILLS: u32 = 20;

/// Share of a core that the agent may use while its engine is dead.
const IDLE_SHARE_MAX: f64 = 0.05;

/// Bytes of log that twenty deaths may cost, at the verbosity of the tests.
const LOG_BYTES_MAX: usize = 256 * 1024;

fn short(agent: &Agent) -> Result<()> {
    ensure!(agent.answer(&completion(FAKE_MODEL, "still there", 5))?.done, "it answers");
    Ok(())
}

#[test]
fn an_engine_killed_twenty_times_comes_back_each_time_and_costs_little() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let agent = Launch::new(lab, &hosts[0])?.fake(Fake::decoding(400.0)).up()?;
        short(&agent)?;
        let (started, used, logged) = (Instant::now(), cpu_time(agent.pid())?, agent.log()?.len());
        for _ in 0..KILLS {
            let dead = agent.kill_engine()?;
            eventually(Duration::from_secs(10), "another engine", || {
                Ok(agent.engine_pid().is_some_and(|pid| pid != dead))
            })?;
            // Proof that it works; also what lets the next pause be short again.
            short(&agent)?;
        }
        ensure!(agent.status()?.engine.restarts >= KILLS, "it counts them: {:?}", agent.status()?.engine);
        let used = cpu_time(agent.pid())?.saturating_sub(used);
        let share = used.as_secs_f64() / started.elapsed().as_secs_f64();
        ensure!(share < 5.0 * IDLE_SHARE_MAX, "{share:.3} of a core while answering and restarting");
        ensure!(agent.log()?.len() - logged < LOG_BYTES_MAX, "{} bytes of log", agent.log()?.len() - logged);
        Ok(())
    })
}

#[test]
fn an_engine_that_dies_whenever_it_lives_is_tried_less_and_less_and_waiting_costs_nothing() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        let agent = Launch::new(lab, &hosts[0])?.fake(Fake::decoding(400.0)).up()?;
        short(&agent)?;
        let (started, used) = (Instant::now(), cpu_time(agent.pid())?);
        // One that takes its time to die is killed again and counts once.
        let mut killed = BTreeSet::new();
        while started.elapsed() < Duration::from_secs(8) {
            killed.extend(agent.kill_engine());
            thread::sleep(Duration::from_millis(20));
        }
        // Pauses of 0.2, 0.4, 0.8, 1.6 and 3.2 s leave room for six lives in eight seconds.
        ensure!((3..=9).contains(&killed.len()), "{} engines in 8 s", killed.len());
        let share = cpu_time(agent.pid())?.saturating_sub(used).as_secs_f64() / started.elapsed().as_secs_f64();
        ensure!(share < IDLE_SHARE_MAX, "{share:.3} of a core while waiting");
        let ((), took) = agent.until(Duration::from_secs(20), "the engine, left alone", |status| {
            (status.engine.phase == "ready" || status.engine.phase == "absent").then_some(())
        })?;
        ensure!(agent.is_running(), "the agent survived, {took:?}");
        eventually(Duration::from_secs(15), "an answer", || Ok(short(&agent).is_ok())).map(drop)
    })
}

#[test]
fn a_question_behind_a_long_prompt_waits_for_its_turn_and_is_not_given_up() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a"])?;
        // The prompt takes it twenty seconds, and an origin bears silence for three and a half.
        let slow = Fake { prefill_tps: 100.0, decode_tps: 400.0, load_ms: 20 };
        let agent = Launch::new(lab, &hosts[0])?.fake(slow).up()?;
        short(&agent)?;
        let long = agent.ask(&completion(FAKE_MODEL, &vec!["word"; 2000].join(" "), 5))?;
        let began = Instant::now();
        // Its placement is remembered, and the wait that it means excused, until a digest shows it: a second later at most.
        let reads =
            |status: &Status| (status.engine.running == 1 && began.elapsed() > Duration::from_secs(2)).then_some(());
        agent.until(Duration::from_secs(15), "it reads", reads)?;
        let asked = Instant::now();
        let second = agent.ask(&completion(FAKE_MODEL, "a short one", 5))?;
        let request = second.request()?.to_owned();
        ensure!(second.finish()?.whole()?.done, "it is answered");
        let waited = asked.elapsed();
        ensure!(waited > Duration::from_secs(8), "it had to wait for its turn: {waited:?}");
        let story = agent.explain(&request)?;
        ensure!(story.assignments.len() == 1, "after {waited:?}: {story:?}");
        ensure!(long.finish()?.whole()?.done, "and so is the first");
        Ok(())
    })
}

/// Two workers and an origin that takes no work.
fn trio(lab: &idlewild_tests::Lab, fake: Fake) -> Result<Cluster> {
    let (_, hosts) = lab.home(&["a", "b", "c"])?;
    let cluster = Cluster::new(lab, &hosts, |number, launch| {
        let launch = launch.fake(fake);
        if number == 0 {
            return Ok(launch.busy());
        }
        launch.owner("away")?;
        Ok(launch.scripted())
    })?;
    for worker in &cluster.0[1..] {
        cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
    }
    Ok(cluster)
}

/// What ends a worker's session without a fault of its own, and how long the answer may pause for it.
#[derive(Debug, Clone, Copy)]
enum Ending {
    OwnerReturns,
    AgentStops,
    EngineDies,
}

/// Answers that an agent gives while it waits for its disk: one that waits with it gives one or two.
const ANSWERS: usize = 6;

/// The owner must not wait for a disk: whoever shuts the gate waits for nothing.
#[test]
fn an_agent_does_not_wait_for_its_disk() -> Verdict {
    in_lab(|lab| {
        let cluster = trio(lab, Fake::decoding(60.0))?;
        let agent = &cluster.0[0];
        agent.invite()?;
        let path = agent.launch().home_path().join("data/idlewild.db");
        let mut database = rusqlite::Connection::open(path).context("open the database")?;
        database.busy_timeout(FOUND_WITHIN).context("wait for a turn")?;
        let locked = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).context("lock it")?;
        thread::scope(|scope| {
            let ticket =
                scope.spawn(|| agent.client()?.post("/idlewild/v1/invite", &serde_json::json!({ "ttl_s": 600 })));
            let mut answers = 0;
            while !ticket.is_finished() && answers < ANSWERS {
                agent.status()?;
                answers += 1;
            }
            drop(locked);
            ensure!(answers == ANSWERS, "{answers} answers, and then it was told that the ticket is not kept");
            let reply = ticket.join().map_err(|_| anyhow::anyhow!("an asker panicked"))??;
            ensure!(reply.status == 200, "the ticket is kept when its turn comes: {reply:?}");
            Ok(())
        })
    })
}

#[test]
fn an_answer_goes_on_when_the_owner_returns_the_agent_stops_or_the_engine_dies() -> Verdict {
    in_lab(|lab| {
        let mut cluster = trio(lab, Fake::decoding(60.0))?;
        let body = completion(FAKE_MODEL, "a story that goes on", 200);
        let expected = cluster.0[0].answer(&body)?.text();
        for ending in [Ending::OwnerReturns, Ending::EngineDies, Ending::AgentStops] {
            let mut stream = cluster.0[0].ask(&body)?;
            stream.read_pieces(30)?;
            let request = stream.request()?.to_owned();
            let worker = stream.so_far().worker.clone().context("a worker")?;
            let worker = cluster.position(&worker)?;
            let ended = Instant::now();
            let reader = thread::spawn(move || stream.finish()?.whole());
            end(&mut cluster.0[worker], ending)?;
            let over = Instant::now();
            let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
            ensure!(answer.text() == expected, "{ending:?}: {answer:?} is not {expected}");
            let pause = answer.longest_pause_within(ended, over);
            ensure!(pause < Duration::from_millis(1500), "{ending:?}: paused for {pause:?}");
            let story = cluster.0[0].explain(&request)?;
            ensure!(story.assignments.len() >= 2, "{ending:?}: {story:?}");
            ensure!(story.assignments[0].ended.is_some(), "{ending:?}: says how it ended: {story:?}");
            mend(&mut cluster, worker, ending)?;
        }
        Ok(())
    })
}

fn end(worker: &mut Agent, ending: Ending) -> Result<()> {
    match ending {
        Ending::OwnerReturns => {
            worker.owner("present")?;
            // Its sequence is kept until another has the request. That computing stops at once is tested at the screens.
            let idle = |status: &Status| (status.engine.running == 0).then_some(());
            worker.until(FOUND_WITHIN, "an idle engine", idle).map(drop)
        }
        Ending::AgentStops => worker.stop().map(drop),
        Ending::EngineDies => worker.kill_engine().map(drop),
    }
}

fn mend(cluster: &mut Cluster, worker: usize, ending: Ending) -> Result<()> {
    match ending {
        Ending::OwnerReturns => cluster.0[worker].owner("away")?,
        Ending::AgentStops => cluster.again(worker)?,
        Ending::EngineDies => {}
    }
    cluster.0[0].until_serving(cluster.0[worker].peer()?, FOUND_WITHIN).map(drop)
}
