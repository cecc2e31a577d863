//! What agents cost while nobody asks anything: processor, memory, and bytes on the wire.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use idlewild_tests::agent::{cpu_time, resident_bytes};
use idlewild_tests::{Agent, Cluster, Host, in_lab};

use crate::line;
use crate::sample::Sample;

/// After finding each other: elections and first digests are over.
const SETTLES: Duration = Duration::from_secs(10);

/// Every pair measures its link once at the start. That is over when for two such windows no peer sent as much as the
/// smallest probe takes.
const QUIET_WINDOW: Duration = Duration::from_secs(5);
const SMALLEST_PROBE_BYTES: u64 = 256 * 1024;
const QUIET_WITHIN: Duration = Duration::from_mins(5);

/// The processor's share is counted in steps of 10 ms: 0.03 % of this.
const WATCHED: Duration = Duration::from_secs(30);

/// For twenty agents to start and find each other on a small machine.
const ALL_FOUND_WITHIN: Duration = Duration::from_secs(90);

/// Sizes of swarms whose processor time is weighed: alone, as everybody begins, and a household.
const SIZES: [usize; 2] = [1, 3];

/// Sizes of swarms whose gossip is weighed.
const SWARMS: [usize; 2] = [3, 20];

/// Processor and memory of agents without a model.
pub(crate) fn run() -> Result<()> {
    SIZES.into_iter().try_for_each(run_with)
}

fn run_with(peers: usize) -> Result<()> {
    with_swarm(peers, |agents| {
        let before = agents.iter().map(|agent| cpu_time(agent.pid())).collect::<Result<Vec<_>>>()?;
        let start = Instant::now();
        thread::sleep(WATCHED);
        let (mut share, mut memory) = (Sample::default(), Sample::default());
        for (agent, before) in agents.iter().zip(before) {
            let used = cpu_time(agent.pid())?.saturating_sub(before);
            share.push(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64());
            memory.push(resident_bytes(agent.pid())? as f64 / 1e6);
        }
        let what = format!("idle agent of {peers}, without a model");
        line(&format!("{what}: % of a core"), &format!("{share:.2}"), "under 0.5")?;
        line(&format!("{what}: MB resident"), &format!("{memory:.1}"), "under 60")
    })
}

/// Bytes a second that an idle peer sends, all overheads of the wire included.
pub(crate) fn run_gossip() -> Result<()> {
    for peers in SWARMS {
        with_swarm(peers, |agents| {
            let hosts: Vec<&Host> = agents.iter().map(Agent::host).collect();
            let before = hosts.iter().map(|host| traffic(host)).collect::<Result<Vec<_>>>()?;
            let start = Instant::now();
            thread::sleep(WATCHED);
            let mut sent = Sample::default();
            for (host, before) in hosts.iter().zip(before) {
                sent.push((traffic(host)? - before) as f64 / start.elapsed().as_secs_f64());
            }
            line(&format!("{peers} idle peers: bytes/s sent by each"), &format!("{sent:.0}"), "")
        })?;
    }
    Ok(())
}

fn traffic(host: &Host) -> Result<u64> {
    Ok(host.traffic(&host.interfaces()[0])?.0)
}

/// Waits until no link is being measured; says what that took altogether.
fn wait_until_quiet(agents: &[Agent]) -> Result<()> {
    let start = Instant::now();
    let mut quiet = 0;
    while quiet < 2 {
        ensure!(start.elapsed() < QUIET_WITHIN, "links are still being measured after {QUIET_WITHIN:?}");
        let before = agents.iter().map(|agent| traffic(agent.host())).collect::<Result<Vec<_>>>()?;
        thread::sleep(QUIET_WINDOW);
        let mut most = 0;
        for (agent, before) in agents.iter().zip(before) {
            most = most.max(traffic(agent.host())? - before);
        }
        quiet = if most < SMALLEST_PROBE_BYTES { quiet + 1 } else { 0 };
    }
    let mut sent = Sample::default();
    for agent in agents {
        sent.push(traffic(agent.host())? as f64 / 1e6);
    }
    line(&format!("{} peers: MB sent by each until all links are measured", agents.len()), &format!("{sent:.1}"), "")
}

/// A swarm without models that has settled.
fn with_swarm(peers: usize, measure: impl FnOnce(&[Agent]) -> Result<()>) -> Result<()> {
    in_lab(|lab| {
        let names: Vec<String> = (0..peers).map(|number| format!("p{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (_, hosts) = lab.home(&names)?;
        let cluster = Cluster::scattered(lab, &hosts, |_, launch| Ok(launch.set("log.level", "info")))?;
        for agent in &cluster.0 {
            agent.until_connected(peers - 1, ALL_FOUND_WITHIN)?;
        }
        thread::sleep(SETTLES);
        wait_until_quiet(&cluster.0)?;
        measure(&cluster.0)
    })
}
