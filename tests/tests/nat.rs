//! Homes behind routers that translate addresses: members there reach each other through one that relays, and directly once
//! each router has let something out.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::{
    Agent, Cluster, FAKE_MODEL, Fake, Filter, Host, Lab, Segment, Verdict, completion, eventually, in_lab, undisturbed,
};

/// Slow enough that an answer lasts while routers change.
const SLOW: Fake = Fake::decoding(20.0);

/// More than a minute of it.
const TOKENS: u32 = 1_500;

/// A direct way is tried again every half minute at least, by both.
const DIRECT_WITHIN: Duration = Duration::from_mins(1);

/// A router on the wide network with one machine behind it.
struct Home {
    router: Host,
    machine: Host,
    /// What leads on from the wide network.
    _gateway: Host,
}

impl Home {
    fn behind(lab: &Lab, wide: &Segment, gateway: &Host, name: &str, translates: Filter) -> Result<Self> {
        let inside = lab.segment()?;
        let router = lab.router(&format!("r{name}"), &[&inside, wide])?;
        router.route_by(gateway.interfaces().get(1).context("an interface on the wide network")?.address)?;
        router.impose(translates)?;
        let machine = lab.host(name)?;
        machine.attach(&inside)?;
        machine.route_by(router.address())?;
        Ok(Self { router, machine, _gateway: gateway.clone() })
    }

    /// The router's address on the wide network.
    fn outside(&self) -> Result<Ipv4Addr> {
        Ok(self.router.interfaces().get(1).context("a second interface")?.address)
    }
}

/// Two homes, and a member with an address of its own, beyond another router.
fn two_homes(lab: &Lab, translates: [Filter; 2]) -> Result<([Home; 2], Vec<Host>)> {
    let (wide, far) = (lab.segment()?, lab.segment()?);
    let gateway = lab.router("g", &[&far, &wide])?;
    let relay = lab.host("w")?;
    relay.attach(&far)?;
    relay.route_by(gateway.address())?;
    let [one, other] = translates;
    let home = |name, translates| Home::behind(lab, &wide, &gateway, name, translates);
    let homes = [home("a", one)?, home("b", other)?];
    let hosts = vec![relay, homes[0].machine.clone(), homes[1].machine.clone()];
    Ok((homes, hosts))
}

/// The member in the middle takes no work and neither does the first home's.
fn swarm(lab: &Lab, hosts: &[Host], relay: &str) -> Result<Cluster> {
    Cluster::scattered(lab, hosts, |number, launch| {
        let launch = launch.fake(SLOW);
        Ok(match number {
            0 => launch.busy().set("swarm.relay", relay),
            1 => launch.busy().set("swarm.relay", "never"),
            _ => launch.set("swarm.relay", "never"),
        })
    })
}

/// How one is connected to another, as it says: through a relay or not; none while it is not.
fn is_relayed(one: &Agent, other: &Agent) -> Result<Option<bool>> {
    let status = one.status()?;
    Ok(status.of(other.peer()?).filter(|peer| peer.connected).map(|peer| peer.relayed))
}

fn until_reached(one: &Agent, other: &Agent, relayed: bool, within: Duration) -> Verdict {
    let how = if relayed { "through a relay" } else { "directly" };
    eventually(within, &format!("they reach each other {how}"), || {
        thread::sleep(Duration::from_millis(100));
        Ok(is_relayed(one, other)? == Some(relayed) && is_relayed(other, one)? == Some(relayed))
    })
    .map(drop)
}

#[test]
fn two_homes_reach_each_other_directly_though_neither_router_lets_anybody_in() -> Verdict {
    in_lab(|lab| {
        let keeps = Filter::Masquerade { out: 1 };
        let (_homes, hosts) = two_homes(lab, [keeps, keeps])?;
        let cluster = swarm(lab, &hosts, "auto")?;
        let [_, a, b] = &cluster.0[..] else { anyhow::bail!("three agents") };
        until_reached(a, b, false, DIRECT_WITHIN)?;
        a.until_serving(b.peer()?, FOUND_WITHIN)?;
        let answer = a.answer(&completion(FAKE_MODEL, "from home to home", 20))?.whole()?;
        ensure!(answer.worker.as_deref() == Some(b.peer()?), "answered by {:?}", answer.worker);
        Ok(())
    })
}

#[test]
fn an_answer_that_began_through_a_relay_loses_nothing_when_there_is_a_direct_way() -> Verdict {
    in_lab(|lab| {
        let keeps = Filter::Masquerade { out: 1 };
        let (homes, hosts) = two_homes(lab, [keeps, keeps])?;
        let closed = Filter::ForwardsNot { other: homes[1].outside()? };
        homes[0].router.impose(closed)?;
        let cluster = swarm(lab, &hosts, "auto")?;
        let [_, a, b] = &cluster.0[..] else { anyhow::bail!("three agents") };
        until_reached(a, b, true, DIRECT_WITHIN)?;
        a.until_serving(b.peer()?, FOUND_WITHIN)?;
        let mut stream = a.ask(&completion(FAKE_MODEL, "a long story", TOKENS))?;
        stream.read_pieces(20)?;
        let begun = Instant::now();
        homes[0].router.lift(closed)?;
        let reader = thread::spawn(move || stream.finish()?.whole());
        until_reached(a, b, false, DIRECT_WITHIN)?;
        ensure!(
            !reader.is_finished(),
            "the answer was over before there was a direct way, {:?} after",
            begun.elapsed()
        );
        let answer = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?.context("the stream")?;
        ensure!(answer.worker.as_deref() == Some(b.peer()?), "answered by {:?}", answer.worker);
        ensure!(answer.moves == 0 && answer.error.is_none(), "{} moves, {:?}", answer.moves, answer.error);
        ensure!(answer.text() == undisturbed("a long story", TOKENS)?, "another text than the engine's own");
        Ok(())
    })
}

#[test]
fn where_routers_give_everybody_another_port_members_talk_through_a_relay() -> Verdict {
    in_lab(|lab| {
        let anew = Filter::MasqueradeAnew { out: 1 };
        let (_homes, hosts) = two_homes(lab, [anew, anew])?;
        let cluster = swarm(lab, &hosts, "auto")?;
        let [_, a, b] = &cluster.0[..] else { anyhow::bail!("three agents") };
        until_reached(a, b, true, DIRECT_WITHIN)?;
        a.until_serving(b.peer()?, FOUND_WITHIN)?;
        let answer = a.answer(&completion(FAKE_MODEL, "by way of a third", 20))?.whole()?;
        ensure!(answer.worker.as_deref() == Some(b.peer()?), "answered by {:?}", answer.worker);
        ensure!(is_relayed(a, b)? == Some(true), "no way but the relay's");
        Ok(())
    })
}

#[test]
fn a_member_that_does_not_relay_brings_nobody_together() -> Verdict {
    in_lab(|lab| {
        let anew = Filter::MasqueradeAnew { out: 1 };
        let (_homes, hosts) = two_homes(lab, [anew, anew])?;
        let cluster = swarm(lab, &hosts, "never")?;
        let [w, a, b] = &cluster.0[..] else { anyhow::bail!("three agents") };
        w.until_connected(2, FOUND_WITHIN)?;
        // What they say of themselves comes by way of the third; connected they are not.
        for (one, other) in [(a, b), (b, a)] {
            let peer = other.peer()?;
            let known = |status: &idlewild_tests::agent::Status| {
                status.of(peer).filter(|p| p.state.is_some()).map(|p| p.connected)
            };
            let (connected, _) = one.until(FOUND_WITHIN, "a digest of the other", known)?;
            ensure!(!connected, "connected without a way");
        }
        Ok(())
    })
}
