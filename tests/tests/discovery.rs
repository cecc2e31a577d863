//! Peers find each other: by multicast alone, by one address, past strangers and black holes, and stay found.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::agent::{API_WITHIN, FOUND_WITHIN};
use idlewild_tests::{
    Agent, Cluster, FAKE_MODEL, Fake, Filter, Lab, Launch, Segment, Verdict, completion, eventually, in_lab,
};

const FAST: Fake = Fake::decoding(400.0);

/// Finding each other takes this long at most.
const PROMISED: Duration = Duration::from_secs(10);

/// An answer that `origin` gets from `worker`, as its engine alone could have made it.
fn is_answered_by(origin: &Agent, worker: &Agent) -> Verdict {
    origin.until_serving(worker.peer()?, FOUND_WITHIN)?;
    let answer = origin.answer(&completion(FAKE_MODEL, "who answers", 20))?;
    ensure!(answer.worker.as_deref() == Some(worker.peer()?), "answered by {:?}", answer.worker);
    ensure!(worker.engine_pid().is_some() && origin.engine_pid().is_none(), "the engine that ran is the worker's");
    Ok(())
}

/// What a peer has learnt of addresses, and would find others by without any discovery.
fn forget_addresses(launch: &Launch) -> Result<()> {
    let book = launch.home_path().join("state/address-book");
    if book.exists() { fs::remove_file(book).context("remove the address book") } else { Ok(()) }
}

#[test]
fn three_peers_find_each_other_by_multicast_alone() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        // Any port: what tickets and address books say is wrong after a restart, so that only multicast can help.
        let mut cluster = Cluster::scattered(lab, &hosts, |number, launch| {
            let launch = launch.fake(FAST).set("swarm.port", 0_u16);
            Ok(if number == 1 { launch } else { launch.busy() })
        })?;
        let mut agents = Vec::new();
        for agent in &mut cluster.0 {
            agent.stop()?;
            forget_addresses(agent.launch())?;
            agents.push(agent.launch().clone());
        }
        drop(cluster);
        let agents = agents.into_iter().map(Launch::up).collect::<Result<Vec<_>>>()?;
        let start = Instant::now();
        for agent in &agents {
            agent.until_connected(2, FOUND_WITHIN)?;
        }
        ensure!(start.elapsed() <= PROMISED, "found after {:?}", start.elapsed());
        is_answered_by(&agents[0], &agents[1])
    })
}

/// A founder on one segment and a joined member on another; the member is not running.
fn pair(lab: &Lab, near: &Segment, far: &Segment, routes: [Option<&str>; 2]) -> Result<(Agent, Launch)> {
    let (a, b) = (lab.host("a")?, lab.host("b")?);
    a.attach(near)?;
    b.attach(far)?;
    for (host, gateway) in [(&a, routes[0]), (&b, routes[1])] {
        gateway.map_or(Ok(()), |gateway| host.route_by(gateway.parse()?))?;
    }
    for host in [&a, &b] {
        host.impose(Filter::NoMulticast)?;
    }
    let founder = Launch::new(lab, &a)?.fake(FAST).up()?;
    let member = Launch::new(lab, &b)?.fake(FAST).busy();
    let joined = idlewild_tests::agent::join(&member, &founder.invite()?)?;
    ensure!(joined.status.success(), "join failed: {}", String::from_utf8_lossy(&joined.stderr));
    forget_addresses(&member)?;
    Ok((founder, member))
}

#[test]
fn one_address_suffices_where_multicast_does_not_reach() -> Verdict {
    in_lab(|lab| {
        let segment = lab.segment()?;
        let (founder, member) = pair(lab, &segment, &segment, [None, None])?;
        let member = member.by_address(&[founder.address()?]).up()?;
        member.until_connected(1, FOUND_WITHIN)?;
        is_answered_by(&member, &founder)
    })
}

#[test]
fn one_address_suffices_between_two_subnets() -> Verdict {
    in_lab(|lab| {
        let (near, far) = (lab.segment()?, lab.segment()?);
        let router = lab.router("r", &[&near, &far])?;
        let gateways = router.interfaces().iter().map(|interface| interface.address.to_string()).collect::<Vec<_>>();
        let routes = [Some(gateways[0].as_str()), Some(gateways[1].as_str())];
        let (founder, member) = pair(lab, &near, &far, routes)?;
        let member = member.set("swarm.peers", founder.address()?).up()?;
        member.until_connected(1, FOUND_WITHIN)?;
        is_answered_by(&member, &founder)
    })
}

#[test]
fn multicast_that_cannot_be_sent_is_reported_and_addresses_still_work() -> Verdict {
    in_lab(|lab| {
        let segment = lab.segment()?;
        let (founder, member) = pair(lab, &segment, &segment, [None, None])?;
        member.host().lift(Filter::NoMulticast)?;
        member.host().impose(Filter::MulticastFails)?;
        let member = member.set("swarm.peers", founder.address()?).up()?;
        member.until_connected(1, FOUND_WITHIN)?;
        is_answered_by(&member, &founder)?;
        let about = |status: &idlewild_tests::agent::Status| {
            let told = |warning: &&String| warning.contains("multicast") || warning.contains("mDNS");
            status.warnings.iter().find(told).cloned()
        };
        member.until(Duration::from_secs(15), "a warning about multicast", about).map(drop)
    })
}

#[test]
fn the_api_and_the_local_model_are_up_at_once_though_every_known_peer_is_a_black_hole() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let (a, b) = (&hosts[0], &hosts[1]);
        a.impose(Filter::Partition { from: b.address() })?;
        let black_holes = format!("{}:14354,10.255.255.1:14354,no-such-name.invalid:14354", b.address());
        let start = Instant::now();
        let agent = Launch::new(lab, a)?.fake(FAST).set("swarm.peers", black_holes).up()?;
        let answer = agent.answer(&completion(FAKE_MODEL, "alone", 5))?;
        ensure!(answer.worker.as_deref() == Some(agent.peer()?), "it is alone");
        ensure!(start.elapsed() <= API_WITHIN, "answered after {:?}", start.elapsed());
        Ok(())
    })
}

#[test]
fn another_node_on_the_address_that_was_given_does_not_hide_the_right_peer() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        // A node of another swarm holds the usual port on loopback of the newcomer's host.
        let stranger = Launch::named(lab, &hosts[1], "other")?
            .fake(FAST)
            .set("api.port", 0_u16)
            .set("swarm.mdns", false)
            .set("swarm.listen", "127.0.0.1")
            .up()?;
        let wrong_and_right = |right: &Agent| Ok::<_, anyhow::Error>(format!("127.0.0.1:14354,{}", right.address()?));
        let founder = Launch::new(lab, &hosts[0])?.fake(FAST).set("swarm.mdns", false).up()?;
        let member = Launch::new(lab, &hosts[1])?.fake(FAST).busy().set("swarm.port", 14_355_u16);
        let member = member.set("swarm.mdns", false).set("swarm.peers", wrong_and_right(&founder)?);
        let joined = idlewild_tests::agent::join(&member, &founder.invite()?)?;
        ensure!(joined.status.success(), "join failed: {}", String::from_utf8_lossy(&joined.stderr));
        let member = member.up()?;
        member.until_connected(1, FOUND_WITHIN)?;
        is_answered_by(&member, &founder)?;
        ensure!(!member.status()?.sees(stranger.peer()?), "the stranger is no peer");
        ensure!(stranger.status()?.connected().next().is_none(), "and it sees none");
        Ok(())
    })
}

/// Three times the 60 s for which an mDNS record counts.
const THREE_LIFETIMES: Duration = Duration::from_mins(3);

#[test]
fn nothing_flaps_while_the_records_of_discovery_expire() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let cluster = Cluster::new(lab, &hosts, |_, launch| Ok(launch.fake(FAST)))?;
        let (a, b) = (&cluster.0[0], &cluster.0[1]);
        let start = Instant::now();
        eventually(THREE_LIFETIMES + Duration::from_secs(30), "three lifetimes of a record", || {
            std::thread::sleep(Duration::from_millis(500));
            for (one, other) in [(a, b), (b, a)] {
                ensure!(one.status()?.sees(other.peer()?), "flapped after {:?}", start.elapsed());
            }
            Ok(start.elapsed() >= THREE_LIFETIMES)
        })?;
        let age = a.status()?.of(b.peer()?).and_then(|peer| peer.connected_for_s).context("connected for a time")?;
        ensure!(Duration::from_secs(age) >= THREE_LIFETIMES, "the connection is {age} s old");
        Ok(())
    })
}
