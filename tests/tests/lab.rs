//! The harness itself, with ordinary programs: what it says about the network is true before an agent relies on it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use idlewild_tests::relay::Path;
use idlewild_tests::{Filter, Host, Verdict, eventually, in_lab};

/// Long enough for ARP and a retransmission.
const SOON: Duration = Duration::from_secs(5);

fn pings(from: &Host, to: &Host) -> bool {
    from.run("ping", &["-c1", "-W1", &to.address().to_string()]).is_ok()
}

/// A server on `host` that sends back what it reads, one connection after another, and says where it listens.
fn echo(host: &Host) -> Result<SocketAddr> {
    let address = SocketAddr::from((host.address(), 7));
    let listener = host.enter(|| TcpListener::bind(address))?.context("listen")?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
        }
    });
    Ok(address)
}

/// The median of five round trips of one byte.
fn round_trip(from: &Host, to: SocketAddr) -> Result<Duration> {
    let mut stream = from.connect(to)?;
    stream.set_nodelay(true)?;
    let mut took = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        took.push(start.elapsed());
    }
    took.sort();
    Ok(took[2])
}

/// Megabits a second of sending `bytes` and having them back.
fn echo_rate(from: &Host, to: SocketAddr, bytes: usize) -> Result<f64> {
    let mut stream = from.connect(to)?;
    let mut sender = stream.try_clone()?;
    let start = Instant::now();
    let sending = thread::spawn(move || sender.write_all(&vec![7; bytes]));
    stream.read_exact(&mut vec![0; bytes])?;
    ensure!(sending.join().is_ok_and(|sent| sent.is_ok()), "sending failed");
    Ok(bytes as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64())
}

#[test]
fn hosts_of_a_home_reach_each_other_until_a_cable_is_cut() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let (a, b) = (&hosts[0], &hosts[1]);
        eventually(SOON, "a ping", || Ok(pings(a, b)))?;
        b.cut()?;
        ensure!(!pings(a, b), "a cut cable carries nothing");
        b.restore()?;
        eventually(SOON, "a ping after the repair", || Ok(pings(a, b)))?;
        ensure!(round_trip(a, echo(b)?)? < Duration::from_millis(40), "a bridge adds next to nothing");
        Ok(())
    })
}

#[test]
fn two_labs_with_the_same_names_and_addresses_do_not_meet() -> Verdict {
    in_lab(|one| {
        let (_, hosts) = one.home(&["a", "b"])?;
        in_lab(|other| {
            let (_, alone) = other.home(&["a"])?;
            let elsewhere = hosts[1].address().to_string();
            ensure!(alone[0].run("ping", &["-c1", "-W1", &elsewhere]).is_err(), "b is in another lab");
            eventually(SOON, "a ping", || Ok(pings(&hosts[0], &hosts[1]))).map(drop)
        })
    })
}

#[test]
fn filters_lose_reset_and_partition_and_can_be_lifted() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let (a, b, c) = (&hosts[0], &hosts[1], &hosts[2]);
        eventually(SOON, "a ping", || Ok(pings(a, b)))?;

        a.impose(Filter::Partition { from: b.address() })?;
        ensure!(!pings(a, b) && pings(a, c), "the partition is between a and b only");
        a.lift(Filter::Partition { from: b.address() })?;

        a.impose(Filter::Loss { percent: 30 })?;
        let flood = b.run("ping", &["-q", "-i0.002", "-c500", "-W1", &a.address().to_string()])?;
        let lost = flood.split_whitespace().find_map(|word| word.strip_suffix('%')?.parse::<f64>().ok());
        let lost = lost.context("ping says how many it lost")?;
        // 1 - 0.7^2 = 51 % both ways; 4 standard deviations of 500 are 9 %.
        ensure!((42.0..60.0).contains(&lost), "{lost} % of round trips lost");
        a.lift(Filter::Loss { percent: 30 })?;

        let echo = echo(b)?;
        let mut stream = a.connect(echo)?;
        b.impose(Filter::ResetTcp)?;
        let _ = stream.write_all(b"x");
        ensure!(stream.read_exact(&mut [0]).is_err(), "the connection was reset");
        b.lift(Filter::ResetTcp)?;
        round_trip(a, echo).map(drop)
    })
}

/// A socket on `host` that hears the mDNS group.
fn listener(host: &Host) -> Result<UdpSocket> {
    host.enter(|| {
        let socket = UdpSocket::bind("224.0.0.251:5353")?;
        socket.join_multicast_v4(&"224.0.0.251".parse().unwrap_or(host.address()), &host.address())?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        Ok(socket)
    })?
}

/// Sends to the mDNS group from `host`.
fn shout(host: &Host) -> Result<std::io::Result<usize>> {
    host.ip("route replace 224.0.0.0/4 dev eth0")?;
    host.enter(|| UdpSocket::bind((host.address(), 0))?.send_to(b"x", "224.0.0.251:5353"))
}

#[test]
fn multicast_passes_vanishes_or_fails_as_told() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let (a, b) = (&hosts[0], &hosts[1]);
        let ear = listener(b)?;
        let heard = || ear.recv(&mut [0; 8]).is_ok();
        // The bridge's ports forward a moment after they are up.
        eventually(SOON, "a ping", || Ok(pings(a, b)))?;
        shout(a)??;
        ensure!(heard(), "a bridge carries multicast");
        a.impose(Filter::NoMulticast)?;
        shout(a)?.context("the sender does not notice")?;
        ensure!(!heard(), "multicast vanishes");
        a.lift(Filter::NoMulticast)?;
        a.impose(Filter::MulticastFails)?;
        ensure!(shout(a)?.is_err(), "the send call fails");
        ensure!(pings(a, b), "unicast goes on");
        Ok(())
    })
}

#[test]
fn a_router_forwards_between_segments_and_translates_addresses_when_told() -> Verdict {
    in_lab(|lab| {
        let (near, far) = (lab.segment()?, lab.segment()?);
        let router = lab.router("r", &[&near, &far])?;
        let (a, b) = (lab.host("a")?, lab.host("b")?);
        a.attach(&near)?;
        b.attach(&far)?;
        a.route_by(router.interfaces()[0].address)?;
        eventually(SOON, "no way back yet", || Ok(!pings(&a, &b)))?;
        router.impose(Filter::Masquerade { out: 1 })?;
        eventually(SOON, "a ping through the translation", || Ok(pings(&a, &b)))?;
        router.lift(Filter::Masquerade { out: 1 })?;
        b.route_by(router.interfaces()[1].address)?;
        eventually(SOON, "a ping by routes", || Ok(pings(&a, &b) && pings(&b, &a))).map(drop)
    })
}

#[test]
fn a_shaped_link_carries_its_rate() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let (a, b) = (&hosts[0], &hosts[1]);
        b.shape(&b.interfaces()[0], 40)?;
        let rate = echo_rate(a, echo(b)?, 8_000_000)?;
        ensure!((10.0..42.0).contains(&rate), "{rate:.1} Mbit/s over a link of 40");
        let (sent, received) = b.traffic(&b.interfaces()[0])?;
        ensure!(sent > 8_000_000 && received > 8_000_000, "counted {sent} sent, {received} received");
        Ok(())
    })
}

#[test]
fn a_slow_segment_delays_limits_and_can_be_cut() -> Verdict {
    in_lab(|lab| {
        let segment = lab.slow_segment(Path { bytes_per_s: 5_000_000, ..Path::delayed(Duration::from_millis(10)) })?;
        let (a, b) = (lab.host("a")?, lab.host("b")?);
        a.attach(&segment)?;
        b.attach(&segment)?;
        let echo = echo(&b)?;
        let took = round_trip(&a, echo)?;
        // How exact it is, the switch's own tests show on a clock of their own.
        ensure!((40..80).contains(&took.as_millis()), "{took:?} for a round trip of 40 ms");
        let rate = echo_rate(&a, echo, 4_000_000)?;
        ensure!((10.0..41.0).contains(&rate), "{rate:.1} Mbit/s over 40");
        let (delivered, _) = segment.relay_counts().context("it is a relay")?;
        ensure!(delivered > 5_000, "{delivered} frames");
        b.cut()?;
        ensure!(!pings(&a, &b), "cut");
        b.restore()?;
        eventually(SOON, "a ping after the repair", || Ok(pings(&a, &b))).map(drop)
    })
}

fn namespaces() -> Result<String> {
    Ok(String::from_utf8(std::process::Command::new("ip").args(["netns", "list"]).output()?.stdout)?)
}

#[test]
fn a_lab_is_gone_after_a_panic_and_after_a_failure() -> Verdict {
    in_lab(|_| {
        let mut names = Vec::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            in_lab(|lab| {
                names.push(lab.host("x")?.run("ip", &["netns", "identify"])?.trim().to_owned());
                std::panic::resume_unwind(Box::new("a panic of the test's"))
            })
        }));
        ensure!(panicked.is_err(), "the panic goes on");
        let failed = in_lab(|lab| {
            names.push(lab.host("y")?.run("ip", &["netns", "identify"])?.trim().to_owned());
            anyhow::bail!("a failure of the test's")
        });
        ensure!(failed.is_err(), "the failure is handed on");
        ensure!(names.iter().all(|name| name.starts_with("iw")), "{names:?}");
        let left = namespaces()?;
        ensure!(names.iter().all(|name| !left.contains(name)), "{names:?} are left");
        Ok(())
    })
}

#[test]
fn what_dead_test_processes_left_is_swept_with_its_processes() -> Verdict {
    in_lab(|_| {
        // Its maker lives until the leftover is complete, since other tests sweep, too.
        let mut maker = std::process::Command::new("sleep").arg("60").spawn().context("start a maker")?;
        let name = &format!("iw{}-0-a", maker.id());
        let ip = |words: &[&str]| std::process::Command::new("ip").args(words).status();
        ensure!(ip(&["netns", "add", name])?.success(), "make a leftover");
        let mut sleeper = std::process::Command::new("ip")
            .args(["netns", "exec", name, "sleep", "60"])
            .stdout(Stdio::null())
            .spawn()
            .context("start a leftover process")?;
        eventually(SOON, "the process is inside", || {
            let inside = std::process::Command::new("ip").args(["netns", "pids", name]).output()?;
            Ok(!inside.stdout.is_empty())
        })?;
        maker.kill().and_then(|()| maker.wait()).context("end the maker")?;
        idlewild_tests::lab::sweep();
        eventually(SOON, "the process is dead", || Ok(sleeper.try_wait()?.is_some()))?;
        ensure!(!namespaces()?.contains(name), "the namespace is gone");
        Ok(())
    })
}

/// Said once for all tests, and shown even though this one passes.
#[test]
fn network_namespaces_are_allowed_here_or_it_is_said_that_they_are_not() -> Verdict {
    in_lab(|lab| {
        use std::io::Write;
        let (_, hosts) = lab.home(&["a"])?;
        writeln!(std::io::stderr(), "network namespaces are allowed here: {} was made", hosts[0].address())?;
        Ok(())
    })
}
