//! Peers that are far from each other: delay, jitter and loss neither hide nor kill them, and are measured.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::relay::Path;
use idlewild_tests::{Cluster, FAKE_MODEL, Fake, Verdict, completion, in_lab};

/// Twice this each way, and up to a quarter more by chance: a round trip of 80 to 100 ms, as between continents.
const DELAY: Duration = Duration::from_millis(20);

/// So slow that a link of 100 Mbit/s brings the whole context sooner, whatever else the machine does.
const MOVED: Fake = Fake { prefill_tps: 30.0, decode_tps: 60.0, load_ms: 20 };

/// Words of a prompt, each a token.
const PROMPT_WORDS: usize = 100;

/// Twelve seconds of decoding.
const MOVED_TOKENS: u32 = 720;

/// Long enough for a dozen heartbeats.
const WATCHED: Duration = Duration::from_secs(8);

#[test]
fn peers_eighty_milliseconds_apart_find_measure_and_serve_each_other() -> Verdict {
    in_lab(|lab| {
        let path = Path { delay: DELAY, jitter: Duration::from_millis(5), loss_ppm: 2_000, bytes_per_s: 2_500_000 };
        let segment = lab.slow_segment(path)?;
        let hosts = [lab.host("a")?, lab.host("b")?];
        for host in &hosts {
            host.attach(&segment)?;
        }
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(Fake::decoding(40.0));
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        let (a, b) = (&cluster.0[0], &cluster.0[1]);
        a.until_serving(b.peer()?, FOUND_WITHIN)?;
        let start = Instant::now();
        let mut answers = 0;
        while start.elapsed() < WATCHED {
            let answer = a.answer(&completion(FAKE_MODEL, "from afar", 60))?;
            ensure!(answer.worker.as_deref() == Some(b.peer()?) && answer.moves == 0, "{answer:?}");
            // There and back once: placing needs no hop (the origin or its neighbour decides), starting needs one.
            let first = answer.first_after()?;
            ensure!(first >= 4 * DELAY, "the first token came after {first:?}");
            answers += 1;
            ensure!(a.status()?.sees(b.peer()?), "taken for dead after {:?}", start.elapsed());
        }
        ensure!(answers >= 3, "{answers} answers");
        // A median, and at first one of few.
        a.until(Duration::from_mins(1), "a round trip as it is", |status| {
            status.of(b.peer().ok()?)?.rtt_us.filter(|rtt_us| (80_000..140_000).contains(rtt_us))
        })?;
        let (delivered, lost) = segment.relay_counts().context("a relay")?;
        ensure!(delivered > 500 && lost > 0, "{delivered} frames delivered, {lost} lost");
        Ok(())
    })
}

#[test]
fn a_request_moves_whole_between_peers_eighty_milliseconds_apart() -> Verdict {
    in_lab(|lab| {
        let path = Path { bytes_per_s: 12_500_000, ..Path::delayed(DELAY) };
        let segment = lab.slow_segment(path)?;
        let hosts = [lab.host("a")?, lab.host("b")?, lab.host("c")?];
        for host in &hosts {
            host.attach(&segment)?;
        }
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            let launch = launch.fake(MOVED);
            Ok(if number == 0 { launch.busy() } else { launch.scripted() })
        })?;
        let [origin, source, destination] = &cluster.0[..] else { anyhow::bail!("three agents") };
        source.owner("away")?;
        origin.until_serving(source.peer()?, FOUND_WITHIN)?;
        let mut stream = origin.ask(&completion(FAKE_MODEL, &"word ".repeat(PROMPT_WORDS), MOVED_TOKENS))?;
        stream.read_pieces(20)?;
        destination.owner("away")?;
        origin.until_serving(destination.peer()?, FOUND_WITHIN)?;
        let request = stream.request()?.to_owned();
        let reader = thread::spawn(move || stream.finish()?.whole());
        origin.move_request(&request, destination.peer()?, "whole", &[])?;
        // What is on its way is more than a hand-over at home leaves open: it is not waited for until the answer ends.
        let story = origin.until_moved(&request, destination.peer()?)?;
        ensure!(
            story.assignments.last().is_some_and(|last| Some(last.worker.as_str()) == destination.peer().ok()),
            "{story:#?}"
        );
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("the stream")?;
        ensure!(answer.moves == 1 && answer.error.is_none(), "{answer:?}");
        let story = origin.explain(&request)?;
        let pulled = story.moves.iter().filter_map(|step| step.measured?.pulled_tokens).max().unwrap_or(0);
        // Not one token of the prompt was made at the destination.
        ensure!(pulled >= PROMPT_WORDS as u32, "{pulled} tokens pulled: {story:#?}");
        Ok(())
    })
}
