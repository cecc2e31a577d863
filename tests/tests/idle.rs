//! An agent that nobody asks sleeps: alone, as everybody begins, and with others.

use std::thread;
use std::time::Duration;

use anyhow::ensure;
use idlewild_tests::agent::cpu_time;
use idlewild_tests::{Cluster, Verdict, in_lab};

/// After starting, finding each other and measuring links.
const SETTLES: Duration = Duration::from_secs(3);

/// Counted in steps of 10 ms.
const WATCHED: Duration = Duration::from_secs(5);

/// Three times what the bench allows, since caches are cold beside other tests; a loop that spins at every millisecond
/// takes 4 %.
const SHARE_MAX: f64 = 0.015;

fn check(peers: usize) -> Verdict {
    in_lab(|lab| {
        let names: Vec<String> = (0..peers).map(|number| format!("p{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (_, hosts) = lab.home(&names)?;
        let cluster = Cluster::new(lab, &hosts, |_, launch| Ok(launch.set("log.level", "info")))?;
        let agent = &cluster.0[0];
        // Links are measured when they are some seconds old: megabytes that no idle hour has.
        agent.until(Duration::from_mins(1), "measured links", |status| {
            let measured = status.connected().filter(|peer| peer.down_bytes_per_s.is_some()).count();
            (measured == peers - 1).then_some(())
        })?;
        thread::sleep(SETTLES);
        let before = cpu_time(agent.pid())?;
        thread::sleep(WATCHED);
        let share = cpu_time(agent.pid())?.saturating_sub(before).as_secs_f64() / WATCHED.as_secs_f64();
        ensure!(share <= SHARE_MAX, "{peers} agents: an idle one takes {:.2} % of a core", 100.0 * share);
        Ok(())
    })
}

#[test]
fn an_agent_that_is_alone_sleeps() -> Verdict {
    check(1)
}

#[test]
fn an_agent_among_three_sleeps() -> Verdict {
    check(3)
}
