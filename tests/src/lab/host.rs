//! A machine: a namespace with interfaces, addresses, routes, filters, and cables that can be cut.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use super::command::finish;
use super::namespace::Namespace;
use super::segment::Port;
use super::{Filter, Segment};

/// How long [`Host::connect`] waits.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// How long a connection of [`Host::connect`] may be silent: a test that waits longer has found a hang.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A machine of the lab. Cloning it gives another handle.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    name: String,
    namespace: Namespace,
    switches: Namespace,
    interfaces: Mutex<Vec<Interface>>,
}

/// One of a host's interfaces.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name inside: `eth0` and so on, in the order of attachment.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The far end of its cable, in the namespace of the switches; none on a relay.
    far_end: Option<String>,
}

impl Host {
    pub(super) fn new(namespace: Namespace, switches: Namespace, name: &str) -> Self {
        let interfaces = Mutex::new(Vec::new());
        Self(Arc::new(Inner { name: name.to_owned(), namespace, switches, interfaces }))
    }

    /// What the test called it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The address of its first interface; loopback where it has none.
    pub fn address(&self) -> Ipv4Addr {
        self.interfaces().first().map_or(Ipv4Addr::LOCALHOST, |first| first.address)
    }

    /// Its interfaces, in the order of attachment.
    pub fn interfaces(&self) -> Vec<Interface> {
        self.0.interfaces.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects it to a segment: the next `eth<n>`, with the segment's next address.
    pub fn attach(&self, segment: &Segment) -> Result<Interface> {
        let name = format!("eth{}", self.interfaces().len());
        let address = segment.subnet().host(segment.next_host());
        let far_end = match segment.port() {
            Port::Bridge(bridge) => Some(self.plug_into(bridge, &name)?),
            Port::Relay(relay, path) => {
                relay.attach(&self.0.namespace, &name, path)?;
                None
            }
        };
        let interface = Interface { name, address, far_end };
        self.ip(&format!("addr add {} dev {}", segment.subnet().interface(address), interface.name))?;
        self.ip(&format!("link set {} up", interface.name))?;
        self.0.interfaces.lock().unwrap_or_else(PoisonError::into_inner).push(interface.clone());
        Ok(interface)
    }

    /// Makes the cable: `name` here, and a port of the bridge in the namespace of the switches.
    fn plug_into(&self, bridge: &str, name: &str) -> Result<String> {
        let far = format!("{}-{name}", self.0.name);
        let (switches, inside) = (&self.0.switches, self.0.namespace.name());
        switches.ip(&format!("link add {far} type veth peer name {name} netns {inside}"))?;
        switches.ip(&format!("link set {far} master {bridge} up"))?;
        Ok(far)
    }

    /// An interface that leads nowhere, such as `docker0`, with this address and prefix.
    pub fn add_bridge(&self, name: &str, address: &str) -> Result<()> {
        self.ip(&format!("link add {name} type bridge"))?;
        self.ip(&format!("addr add {address} dev {name}"))?;
        self.ip(&format!("link set {name} up"))?;
        Ok(())
    }

    /// Sends all that is not on its own segments by `gateway`.
    pub fn route_by(&self, gateway: Ipv4Addr) -> Result<()> {
        self.ip(&format!("route add default via {gateway}")).map(drop)
    }

    /// Makes a router of it.
    pub(super) fn forward(&self) -> Result<()> {
        self.enter(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?.context("switch forwarding on")
    }

    /// Pulls the cable of an interface: it stays up, without a carrier. Interfaces on a relay are taken down instead.
    pub fn unplug(&self, interface: &Interface) -> Result<()> {
        self.set_cable(interface, "down")
    }

    /// Plugs it in again.
    pub fn plug(&self, interface: &Interface) -> Result<()> {
        self.set_cable(interface, "up")
    }

    fn set_cable(&self, interface: &Interface, level: &str) -> Result<()> {
        match &interface.far_end {
            Some(far) => self.0.switches.ip(&format!("link set {far} {level}")),
            None => self.ip(&format!("link set {} {level}", interface.name)),
        }
        .map(drop)
    }

    /// Pulls every cable.
    pub fn cut(&self) -> Result<()> {
        self.interfaces().iter().try_for_each(|interface| self.unplug(interface))
    }

    /// Plugs every cable in again.
    pub fn restore(&self) -> Result<()> {
        self.interfaces().iter().try_for_each(|interface| self.plug(interface))
    }

    /// Limits what an interface sends and receives, in megabits a second each way. Only on a bridge.
    pub fn shape(&self, interface: &Interface, mbit_per_s: u32) -> Result<()> {
        let far = interface.far_end.as_deref().context("a relay's rate is set by its path")?;
        // Two full GSO packets of burst; a queue of 50 ms, as a home router might have.
        let discipline = format!("root tbf rate {mbit_per_s}mbit burst 128kb latency 50ms");
        self.0.namespace.tc(&format!("qdisc replace dev {} {discipline}", interface.name))?;
        self.0.switches.tc(&format!("qdisc replace dev {far} {discipline}"))?;
        Ok(())
    }

    /// Bytes that an interface has sent and received.
    pub fn traffic(&self, interface: &Interface) -> Result<(u64, u64)> {
        self.enter(|| {
            let table = fs::read_to_string("/proc/thread-self/net/dev").context("read the interface counters")?;
            let counters = table
                .lines()
                .find_map(|line| line.trim().strip_prefix(&interface.name)?.strip_prefix(':'))
                .with_context(|| format!("no interface {}", interface.name))?;
            let number = |at| {
                let word: Option<&str> = counters.split_whitespace().nth(at);
                word.and_then(|word| word.parse().ok()).context("a counter is missing")
            };
            Ok((number(8)?, number(0)?))
        })?
    }

    /// Puts a filter in force.
    pub fn impose(&self, filter: Filter) -> Result<()> {
        finish(self.command("nft").args(["-f", "-"]), Some(&filter.rules())).map(drop)
    }

    /// Lifts a filter.
    pub fn lift(&self, filter: Filter) -> Result<()> {
        finish(self.command("nft").args(["delete", "table", filter.family(), &filter.table()]), None).map(drop)
    }

    /// Runs `ip` on it.
    pub fn ip(&self, words: &str) -> Result<String> {
        self.0.namespace.ip(words)
    }

    /// A command that will run on it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.0.namespace.command(program)
    }

    /// Runs a command on it to its end; gives what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        finish(self.command(program).args(arguments), None)
    }

    /// Runs `work` on a thread on it. Sockets and threads opened there stay there.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.0.namespace.enter(work)
    }

    /// A TCP connection from it, for use anywhere. Reads end with an error after a while without a byte.
    pub fn connect(&self, to: SocketAddr) -> Result<TcpStream> {
        let connected = self.enter(|| TcpStream::connect_timeout(&to, CONNECT_WITHIN))?;
        let stream = connected.with_context(|| format!("connect from {} to {to}", self.0.name))?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(stream)
    }
}
