//! The coordinator itself prepares, from live digests: nobody says `idlewild move`.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{Explanation, FOUND_WITHIN, History, MoveStep, PeerStatus};
use idlewild_tests::{
    Agent, Answer, Cluster, FAKE_MODEL, Fake, Filter, Lab, Stream, Verdict, completion, in_lab, undisturbed, within,
};

/// Slow, so that the rest of an answer takes long against what a preparation does.
const FAKE: Fake = Fake { prefill_tps: 2000.0, decode_tps: 15.0, load_ms: 20 };

/// 27 seconds.
const TOKENS: u32 = 400;

/// 40 seconds: two rounds of the coordinator's and a while.
const LONG_TOKENS: u32 = 600;

/// Ten seconds of the slower ones.
const SHORT_TOKENS: u32 = 150;

const WORDS: usize = 300;

/// A plan is made within a round or two of the coordinator's.
const PLANNED_WITHIN: Duration = Duration::from_secs(15);

fn step<'s>(story: &'s Explanation, kind: &str, to: &str) -> Option<&'s MoveStep> {
    story.moves.iter().find(|step| step.refused.is_none() && is(step, kind, to))
}

/// Whether it is a step of that kind, to that peer.
fn is(step: &MoveStep, kind: &str, to: &str) -> bool {
    let text = step.step.to_string();
    text.contains(kind) && text.contains(to)
}

/// A plan of a coordinator's carries what was weighed, and why it came out so.
fn is_explained(step: &MoveStep, reason: &str, to: &str, leader: &str) -> Result<()> {
    ensure!(step.decided_by == leader, "not the coordinator's: {step:#?}");
    ensure!(step.terms["reason"] == reason, "{step:#?}");
    let weighed = step.terms["weighed"].as_array().context("what was weighed")?;
    let chosen = weighed.iter().find(|weighed| weighed["terms"]["peer"] == to);
    let test = chosen.context("the chosen one was weighed")?["test"].as_array().context("a test")?;
    let side = |at: usize| test.get(at).and_then(serde_json::Value::as_f64).context("a side of the test");
    ensure!(side(0)? > side(1)?, "the test passes: {step:#?}");
    Ok(())
}

#[test]
fn a_worker_that_never_stays_for_long_is_given_a_standby_which_goes_on_when_it_goes() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let mut cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(FAKE);
            Ok(match number {
                0 => launch.busy(),
                _ => launch.scripted(),
            })
        })?;
        cluster.remember(1, History::MOMENTS)?;
        let [origin, restless, steady] = &cluster.0[..] else { anyhow::bail!("three agents") };
        restless.owner("away")?;
        origin.until_serving(restless.peer()?, FOUND_WITHIN)?;

        let words: Vec<String> = (0..WORDS).map(|word| format!("w{word}")).collect();
        let prompt = words.join(" ");
        let expected = undisturbed(&prompt, TOKENS)?;
        let mut stream = origin.ask(&completion(FAKE_MODEL, &prompt, TOKENS))?;
        stream.read_pieces(10)?;
        let request = stream.request()?.to_owned();
        let reader = thread::spawn(move || Stream::finish(stream)?.whole());
        steady.owner("away")?;
        origin.until_serving(steady.peer()?, FOUND_WITHIN)?;

        let (story, _) = within(PLANNED_WITHIN, "a standby that nobody asked for", || {
            let story = origin.explain(&request)?;
            ensure!(story.finish.is_none(), "it has ended where it was: {story:#?}");
            let keeps_up = story.standby.as_ref().is_some_and(|standby| standby.lag_tokens < 20);
            Ok(keeps_up.then_some(story))
        })
        .with_context(|| format!("story: {:#?}", origin.explain(&request)))?;
        let (leader, _) = origin.until(FOUND_WITHIN, "a coordinator", |status| status.coordinator.clone())?;
        let prepare = step(&story, "prepare", steady.peer()?).with_context(|| format!("no PREPARE: {story:#?}"))?;
        is_explained(prepare, "preparation_pays", steady.peer()?, &leader.leader)?;

        restless.owner("present")?;
        let story = origin.until_moved(&request, steady.peer()?)?;
        ensure!(story.assignments.last().is_some_and(|last| last.worker == steady.peer().unwrap_or("")), "{story:#?}");
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")?;
        ensure!(answer.text() == expected && answer.moves == 1, "{answer:?} is not {expected:?}");
        Ok(())
    })
}

/// What a person reads of a request.
fn told(agent: &Agent, request: &str) -> Result<String> {
    let output = agent.launch().command(&["explain", request])?.output().context("run idlewild explain")?;
    ensure!(output.status.success(), "idlewild explain says {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// An origin that takes no work; a worker whose sessions were all short; one whose sessions were all long; and one like
/// that which has a single place, and somebody in it. None of them serves yet.
fn restless_steady_and_full(lab: &Lab) -> Result<Cluster> {
    let (_, hosts) = lab.home(&["a", "b", "c", "d"])?;
    let mut cluster = Cluster::new(lab, &hosts, |number, launch| {
        let launch = launch.fake(FAKE);
        Ok(if number == 3 { launch.scripted().set("engine.slots", 1_u16) } else { launch.scripted() })
    })?;
    for (at, history) in [(1, History::MOMENTS), (2, History::NIGHTS), (3, History::NIGHTS)] {
        cluster.remember(at, history)?;
    }
    Ok(cluster)
}

fn reading(stream: Stream) -> thread::JoinHandle<Result<Answer>> {
    thread::spawn(move || stream.finish()?.whole())
}

fn finish(reader: thread::JoinHandle<Result<Answer>>) -> Result<Answer> {
    reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("a stream")
}

#[test]
fn a_worker_that_never_stays_for_long_is_left_for_one_that_does_before_it_goes() -> Verdict {
    in_lab(|lab| {
        let cluster = restless_steady_and_full(lab)?;
        let [origin, restless, steady, full] = &cluster.0[..] else { anyhow::bail!("four agents") };
        // Cut off from the others: what it is asked stays there, and what they are asked does not come.
        let others = [origin, restless, steady].map(|agent| Filter::Partition { from: agent.host().address() });
        for partition in others {
            full.host().impose(partition)?;
        }
        full.owner("away")?;
        full.until(FOUND_WITHIN, "a session", |status| (status.state() == "serving").then_some(()))?;
        let mut other = full.ask(&completion(FAKE_MODEL, "somebody else's", 3 * LONG_TOKENS))?;
        other.read_pieces(1)?;
        for agent in [origin, restless, steady] {
            agent.until_gone(full.peer()?, FOUND_WITHIN)?;
        }
        restless.owner("away")?;
        origin.until_serving(restless.peer()?, FOUND_WITHIN)?;
        let words: Vec<String> = (0..WORDS).map(|word| format!("w{word}")).collect();
        let prompt = words.join(" ");
        let expected = undisturbed(&prompt, LONG_TOKENS)?;
        let mut stream = origin.ask(&completion(FAKE_MODEL, &prompt, LONG_TOKENS))?;
        stream.read_pieces(10)?;
        let request = stream.request()?.to_owned();
        let reader = reading(stream);
        for partition in others {
            full.host().lift(partition)?;
        }
        // Whoever of them coordinates.
        for agent in [origin, restless, steady] {
            agent.until(FOUND_WITHIN, "a place that is taken", |status| {
                let models = &status.of(full.peer().ok()?)?.models;
                models.first().is_some_and(|model| model["running"] == 1).then_some(())
            })?;
        }
        steady.owner("away")?;
        origin.until_serving(steady.peer()?, FOUND_WITHIN)?;

        let story = origin.until_moved(&request, steady.peer()?)?;
        let answer = finish(reader)?;
        ensure!(answer.text() == expected && answer.moves == 1, "{answer:?} is not {expected:?}: {story:#?}");
        let story = origin.explain(&request)?;
        let [first, second] = &story.assignments[..] else { anyhow::bail!("two workers: {story:#?}") };
        ensure!(first.worker == restless.peer()? && second.worker == steady.peer()?, "{story:#?}");
        ensure!(first.ended.as_deref().is_some_and(|ended| ended.contains("handed over")), "{story:#?}");
        ensure!(second.from_index > 10 && second.from_index < LONG_TOKENS, "{story:#?}");

        let (leader, _) = origin.until(FOUND_WITHIN, "a coordinator", |status| status.coordinator.clone())?;
        let prepare = step(&story, "prepare", steady.peer()?).with_context(|| format!("no PREPARE: {story:#?}"))?;
        is_explained(prepare, "preparation_pays", steady.peer()?, &leader.leader)?;
        let commit = step(&story, "commit", steady.peer()?).with_context(|| format!("no COMMIT: {story:#?}"))?;
        is_explained(commit, "move_pays", steady.peer()?, &leader.leader)?;
        ensure!(commit.measured.is_some_and(|measured| measured.stall_ms.is_some()), "{commit:#?}");
        is_vetoed(prepare, full.peer()?)?;

        let told = told(origin, &request)?;
        for expected in [
            "prepare on",
            "because what it saves if the worker leaves is more than it costs (",
            "hand over from",
            "because less is expected to be lost there, and the answer is not done later (",
            "lost if it stays",
            "a stall of",
        ] {
            ensure!(told.contains(expected), "{expected:?} is missing in\n{told}");
        }
        Ok(())
    })
}

/// Elections until the peer leads that stays longest.
const ELECTIONS_MAX: usize = 5;

/// Whom all agents believe to lead, once they agree and know that the one at `at` serves.
fn agreed_leader(cluster: &Cluster, at: usize) -> Result<usize> {
    let wanted = cluster.0[at].peer()?;
    let (leader, _) = within(FOUND_WITHIN, "one coordinator", || {
        let seen = cluster.0.iter().map(Agent::status).collect::<Result<Vec<_>>>()?;
        let first = seen.first().and_then(|status| status.coordinator.as_ref()).map(|leader| leader.leader.clone());
        let agree =
            seen.iter().all(|status| status.coordinator.as_ref().map(|leader| &leader.leader) == first.as_ref());
        let know =
            seen.iter().all(|status| status.peer == wanted || status.of(wanted).is_some_and(PeerStatus::is_serving));
        Ok(first.filter(|_| agree && know))
    })?;
    cluster.position(&leader)
}

/// Has the peer lead that stays longest: whoever leads is stopped, gives the lead to the best that it knows, and comes back.
fn lead(cluster: &mut Cluster, at: usize) -> Verdict {
    for _ in 0..ELECTIONS_MAX {
        let leader = agreed_leader(cluster, at)?;
        if leader == at {
            return Ok(());
        }
        let gone = cluster.0[leader].peer()?.to_owned();
        cluster.0[leader].stop()?;
        // Its successor is elected before it is back.
        cluster.0[at].until(FOUND_WITHIN, "another coordinator", |status| {
            status.coordinator.as_ref().filter(|seen| seen.leader != gone).map(drop)
        })?;
        cluster.again(leader)?;
    }
    anyhow::bail!("it does not lead after {ELECTIONS_MAX} elections")
}

/// NOTICE: the goodbye reaches whoever coordinates, and not the origin.
#[test]
fn a_goodbye_that_its_origin_cannot_hear_is_heard_by_the_coordinator_which_has_the_context_moved() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let rates = [FAKE, FAKE, Fake { decode_tps: 8.0, ..FAKE }];
        let mut cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(rates[number]);
            Ok(if number == 0 { launch.busy() } else { launch.scripted() })
        })?;
        for at in [1, 2] {
            cluster.remember(at, History::NIGHTS)?;
        }
        cluster.0[2].owner("away")?;
        cluster.0[0].until_serving(cluster.0[2].peer()?, FOUND_WITHIN)?;
        lead(&mut cluster, 2)?;
        let [origin, worker, leader] = &cluster.0[..] else { anyhow::bail!("three agents") };
        worker.owner("away")?;
        // Whoever decides knows of the faster one.
        for agent in [origin, leader] {
            agent.until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        for agent in [worker, leader] {
            agent.load_model(&completion(FAKE_MODEL, "to load it", SHORT_TOKENS), FOUND_WITHIN)?;
        }
        let followed = leader.peer()?.to_owned();
        origin.until(FOUND_WITHIN, "the coordinator", |status| {
            status.coordinator.as_ref().filter(|seen| seen.leader == followed).map(drop)
        })?;

        let prompt = (0..WORDS).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
        let expected = undisturbed(&prompt, SHORT_TOKENS)?;
        let mut stream = origin.ask(&completion(FAKE_MODEL, &prompt, SHORT_TOKENS))?;
        // Enough for a report to the coordinator.
        stream.read_pieces(30)?;
        let request = stream.request()?.to_owned();
        let reader = reading(stream);
        origin.host().impose(Filter::Partition { from: worker.host().address() })?;
        worker.owner("present")?;
        let story = origin.until_moved(&request, leader.peer()?)?;
        let answer = finish(reader)?;
        ensure!(answer.text() == expected && answer.moves == 1, "{answer:?} is not {expected:?}: {story:#?}");
        let planned = story.moves.iter().find(|step| step.terms["reason"] == "notice");
        let planned = planned.with_context(|| format!("no plan for the notice: {story:#?}"))?;
        is_explained(planned, "notice", leader.peer()?, leader.peer()?)?;
        ensure!(planned.refused.is_none(), "{planned:#?}");
        let told = told(origin, &request)?;
        ensure!(
            told.contains("hand over from") && told.contains("because the worker has said that it will leave"),
            "{told}"
        );
        Ok(())
    })
}

/// FALLBACK: a worker is chosen with somebody in mind who goes on should it be lost: whoever has the context soonest.
#[test]
fn a_request_is_placed_with_a_fallback_which_goes_on_when_its_worker_is_killed() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c", "d"])?;
        let rates = [FAKE, Fake { decode_tps: 60.0, ..FAKE }, Fake { prefill_tps: 60.0, ..FAKE }, FAKE];
        let mut cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(rates[number]);
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        for worker in &cluster.0[1..] {
            cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        let prompt = (0..WORDS).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
        let expected = undisturbed(&prompt, SHORT_TOKENS)?;
        let mut stream = cluster.0[0].ask(&completion(FAKE_MODEL, &prompt, SHORT_TOKENS))?;
        stream.read_pieces(10)?;
        let request = stream.request()?.to_owned();
        let reader = reading(stream);
        let first = cluster.0[0].explain(&request)?.assignments.pop().context("an assignment")?;
        let (fastest, soonest) = (cluster.0[1].peer()?.to_owned(), cluster.0[3].peer()?.to_owned());
        ensure!(first.worker == fastest && first.fallback.as_ref() == Some(&soonest), "{first:#?}");
        cluster.0[1].kill()?;
        let answer = finish(reader)?;
        ensure!(answer.text() == expected && answer.moves == 1, "{answer:?} is not {expected:?}");
        let story = cluster.0[0].explain(&request)?;
        ensure!(story.assignments.last().is_some_and(|last| last.worker == soonest), "{story:#?}");
        Ok(())
    })
}

/// A peer that has no place is weighed, and is no destination.
fn is_vetoed(step: &MoveStep, peer: &str) -> Result<()> {
    let weighed = step.terms["weighed"].as_array().context("what was weighed")?;
    let vetoed = weighed.iter().find(|weighed| weighed["terms"]["peer"] == peer);
    let veto = vetoed.with_context(|| format!("{peer} was not weighed: {step:#?}"))?["veto"].as_str();
    ensure!(veto == Some("too_busy") || veto == Some("queued"), "{step:#?}");
    Ok(())
}
