//! Which interface is used: never a container's bridge, any that reaches a peer, and another when a cable is cut.

use std::time::Duration;

use anyhow::ensure;
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::{Cluster, FAKE_MODEL, Fake, Launch, Verdict, completion, in_lab};

const FAST: Fake = Fake::decoding(400.0);

#[test]
fn the_same_docker_address_on_both_machines_leads_nobody_astray() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        for host in &hosts {
            host.add_bridge("docker0", "172.17.0.1/16")?;
        }
        let cluster = Cluster::new(lab, &hosts, |_, launch| Ok(launch.fake(FAST)))?;
        for (number, agent) in cluster.0.iter().enumerate() {
            let other = &cluster.0[1 - number];
            let status = agent.status()?;
            let address = status.of(other.peer()?).and_then(|peer| peer.address.clone()).unwrap_or_default();
            ensure!(address.contains(&other.host().address().to_string()), "connected over {address}");
            let tells = status.listeners.iter().any(|listener| listener.contains("172.17.0.1"));
            ensure!(!tells, "announces a container's bridge: {:?}", status.listeners);
        }
        let ticket = cluster.0[0].client()?.post("/idlewild/v1/invite", &serde_json::json!({ "ttl_s": 600 }))?;
        ensure!(!ticket.text.contains("172.17.0.1"), "a ticket names it: {}", ticket.text);
        Ok(())
    })
}

#[test]
fn a_peer_on_two_subnets_stays_online_for_one_that_is_on_a_single_one() -> Verdict {
    in_lab(|lab| {
        let (one, two) = (lab.segment()?, lab.segment()?);
        let (a, b) = (lab.host("a")?, lab.host("b")?);
        a.attach(&one)?;
        // Its first interface is the one that A cannot reach.
        b.attach(&two)?;
        b.attach(&one)?;
        let hosts = [a, b];
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            Ok(if number == 0 { launch.fake(FAST).busy() } else { launch.fake(FAST) })
        })?;
        let (a, b) = (&cluster.0[0], &cluster.0[1]);
        // Past the 30 s in which a failed first address would show.
        let held = Duration::from_secs(12);
        let start = std::time::Instant::now();
        a.until(held + Duration::from_secs(5), "time", |status| {
            let online = b.peer().is_ok_and(|peer| status.sees(peer));
            (!online || start.elapsed() >= held).then_some(())
        })?;
        ensure!(a.status()?.sees(b.peer()?), "B went offline after {:?}", start.elapsed());
        let answer = a.answer(&completion(FAKE_MODEL, "two subnets", 10))?;
        ensure!(answer.worker.as_deref() == Some(b.peer()?), "B answers");
        Ok(())
    })
}

#[test]
fn when_one_of_two_links_is_cut_the_other_takes_over() -> Verdict {
    in_lab(|lab| {
        let (one, two) = (lab.segment()?, lab.segment()?);
        let hosts = [lab.host("a")?, lab.host("b")?];
        for host in &hosts {
            host.attach(&one)?;
            host.attach(&two)?;
        }
        let cluster = Cluster::new(lab, &hosts, |_, launch: Launch| Ok(launch.fake(FAST)))?;
        let (a, b) = (&cluster.0[0], &cluster.0[1]);
        let used = a.status()?.of(b.peer()?).and_then(|peer| peer.address.clone()).unwrap_or_default();
        let interfaces = hosts[1].interfaces();
        let cut = interfaces.iter().find(|interface| used.contains(&interface.address.to_string()));
        let cut = cut.ok_or_else(|| anyhow::anyhow!("connected over {used}"))?;
        hosts[1].unplug(cut)?;
        let elsewhere = |status: &idlewild_tests::agent::Status| {
            let address = status.of(b.peer().ok()?)?.address.clone()?;
            (!address.contains(&cut.address.to_string()) && status.sees(b.peer().ok()?)).then_some(())
        };
        a.until(FOUND_WITHIN + Duration::from_secs(5), "a connection over the other link", elsewhere).map(drop)
    })
}
