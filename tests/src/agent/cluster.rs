//! Several agents as one private swarm.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Agent, Launch};
use crate::{Host, Lab, REAL_MODEL, within};

/// Names the program under test; without it, the one that cargo built beside the test.
const PROGRAM_VARIABLE: &str = "IDLEWILD_BIN";

/// How long tests wait for peers to find each other and to hear what they serve: three times what is promised.
pub const FOUND_WITHIN: Duration = Duration::from_secs(30);

/// The program under test.
pub fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(PROGRAM_VARIABLE) {
        return Ok(path.into());
    }
    let test = std::env::current_exe().context("find the test's own program")?;
    let built = test.ancestors().skip(1).map(|directory| directory.join("idlewild")).find(|path| path.is_file());
    built.with_context(|| format!("no idlewild beside {}; build it, or name it in {PROGRAM_VARIABLE}", test.display()))
}

/// Agents of one swarm, the founder first.
pub struct Cluster(pub Vec<Agent>);

impl Cluster {
    /// Starts an agent on each host as `dress` wants it: the first founds a swarm, the others join it by ticket. Returns
    /// once each is connected to all others.
    pub fn new(lab: &Lab, hosts: &[Host], dress: impl Fn(usize, Launch) -> Result<Launch>) -> Result<Self> {
        let cluster = Self::scattered(lab, hosts, dress)?;
        for agent in &cluster.0 {
            agent.until_connected(hosts.len() - 1, FOUND_WITHIN)?;
        }
        Ok(cluster)
    }

    /// The same, without waiting for them to find each other.
    pub fn scattered(lab: &Lab, hosts: &[Host], dress: impl Fn(usize, Launch) -> Result<Launch>) -> Result<Self> {
        let (first, others) = hosts.split_first().context("a cluster has a host")?;
        let mut agents = vec![dress(0, Launch::new(lab, first)?)?.up()?];
        for (number, host) in others.iter().enumerate() {
            let launch = dress(number + 1, Launch::new(lab, host)?)?;
            let ticket = agents[0].invite()?;
            let joined = join(&launch, &ticket)?;
            ensure!(joined.status.success(), "join failed: {}", String::from_utf8_lossy(&joined.stderr));
            agents.push(launch.start()?);
        }
        agents.iter().try_for_each(|agent| agent.wait_for_api().map(drop))?;
        Ok(Self(agents))
    }

    /// An origin without a model, and workers with a real one that it knows to serve: one home, a host for each name.
    pub fn of_real_workers(lab: &Lab, names: &[&str], model: &Path) -> Result<Self> {
        let (_, hosts) = lab.home(names)?;
        let cluster = Self::new(lab, &hosts, |number, launch| {
            if number == 0 {
                return Ok(launch.busy());
            }
            launch.import(model, REAL_MODEL)?;
            Ok(launch)
        })?;
        for worker in &cluster.0[1..] {
            cluster.0[0].until_serving(worker.peer()?, FOUND_WITHIN)?;
        }
        Ok(cluster)
    }

    /// The agent that leads, once all say the same: one that is alone leads itself.
    pub fn leader(&self, deadline: Duration) -> Result<usize> {
        let (leader, _) = within(deadline, "one coordinator", || {
            let seen = self.0.iter().map(Agent::status).collect::<Result<Vec<_>>>()?;
            let mut leaders = seen.into_iter().map(|status| status.coordinator.map(|leader| leader.leader));
            let first = leaders.next().flatten();
            Ok(if leaders.all(|leader| leader == first) { first } else { None })
        })?;
        self.position(&leader)
    }

    /// Starts the one at `at` again after its end, from the same home.
    pub fn again(&mut self, at: usize) -> Result<()> {
        let again = self.0.remove(at).again()?;
        self.0.insert(at, again);
        Ok(())
    }

    /// Which agent a peer id is.
    pub fn position(&self, peer: &str) -> Result<usize> {
        let peers = self.0.iter().map(Agent::peer).collect::<Result<Vec<_>>>()?;
        peers.iter().position(|known| *known == peer).with_context(|| format!("{peer} is none of the cluster"))
    }
}

/// Joins the home of `launch` to the swarm that issued `ticket`, as a user would: the ticket by standard input.
pub fn join(launch: &Launch, ticket: &str) -> Result<Output> {
    let mut command = launch.command(&["join"])?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // A refusal may come before all was read.
    let _ = writeln!(stdin, "{ticket}");
    drop(stdin);
    child.wait_with_output().context("wait for join")
}
