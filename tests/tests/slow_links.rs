//! Peers that are far from each other: delay, jitter and loss neither hide nor kill them, and are measured.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::relay::Path;
use idlewild_tests::{Cluster, FAKE_MODEL, Fake, Verdict, completion, in_lab};

/// Twice this each way, and up to a quarter more by chance: a round trip of 80 to 100 ms, as between continents.
const DELAY: Duration = Duration::from_millis(20);

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
            ensure!(first >= 4 * DELAY && first < Duration::from_secs(1), "the first token came after {first:?}");
            answers += 1;
            ensure!(a.status()?.sees(b.peer()?), "taken for dead after {:?}", start.elapsed());
        }
        ensure!(answers >= 3, "{answers} answers");
        let rtt_us = a.status()?.of(b.peer()?).and_then(|peer| peer.rtt_us).context("a measured round trip")?;
        ensure!((80_000..140_000).contains(&rtt_us), "measured {rtt_us} us");
        let (delivered, lost) = segment.relay_counts().context("a relay")?;
        ensure!(delivered > 500 && lost > 0, "{delivered} frames delivered, {lost} lost");
        Ok(())
    })
}
