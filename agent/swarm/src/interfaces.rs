//! Which network interfaces count, and which addresses are worth dialling.
//!
//! A home machine has more interfaces than networks: container bridges and their cables announce addresses that nobody
//! else can reach. Listening is on all of them at once (the system picks the source address), so the filter acts on
//! what is told to others, on what is dialled, and on who may connect.

use std::net::IpAddr;

/// Interfaces of containers and virtual machines: their addresses mean nothing outside.
const VIRTUAL: [&str; 5] = ["docker*", "br-*", "veth*", "virbr*", "cni*"];

/// Interfaces of tunnels: often slow or metered, so only on request.
const TUNNELS: [&str; 6] = ["tun*", "tap*", "wg*", "tailscale*", "utun*", "zt*"];

/// Which interfaces count, by their names. A name may end in `*`: then it means all that begin so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceFilter {
    /// Interfaces that do not count.
    pub skip: Vec<String>,
    /// If not empty, the only ones that count (those in `skip` still do not).
    pub only: Vec<String>,
    /// Whether tunnels count.
    pub tunnels: bool,
}

impl Default for InterfaceFilter {
    fn default() -> Self {
        Self { skip: VIRTUAL.map(str::to_owned).to_vec(), only: Vec::new(), tunnels: false }
    }
}

impl InterfaceFilter {
    /// Whether the interface counts.
    pub fn accepts(&self, interface: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| matches(name, interface));
        let is_chosen = self.only.is_empty() || is_in(&self.only);
        is_chosen && !is_in(&self.skip) && (self.tunnels || !TUNNELS.iter().any(|name| matches(name, interface)))
    }
}

/// Whether `interface` is the one called `name`, or one of those that `name*` means.
fn matches(name: &str, interface: &str) -> bool {
    name.strip_suffix('*').map_or(name == interface, |beginning| interface.starts_with(beginning))
}

/// One address of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalAddress {
    /// Its interface.
    pub(crate) interface: String,
    /// The address.
    pub(crate) ip: IpAddr,
    /// Bits of its network.
    pub(crate) prefix_bits: u8,
}

impl LocalAddress {
    fn network_holds(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.prefix_bits.min(32));
                u32::from(own).checked_shr(shift) == u32::from(other).checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.prefix_bits.min(128));
                u128::from(own).checked_shr(shift) == u128::from(other).checked_shr(shift)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// What is known about this machine's addresses; refreshed now and then, since they come and go.
#[derive(Debug, Clone)]
pub(crate) struct Interfaces {
    filter: InterfaceFilter,
    loopback_only: bool,
    addresses: Vec<LocalAddress>,
}

impl Interfaces {
    pub(crate) fn new(filter: InterfaceFilter, loopback_only: bool) -> Self {
        let mut interfaces = Self { filter, loopback_only, addresses: Vec::new() };
        interfaces.refresh();
        interfaces
    }

    /// Asks the system again. Keeps what was known where the system does not answer.
    pub(crate) fn refresh(&mut self) {
        if let Ok(list) = if_addrs::get_if_addrs() {
            self.addresses = list.into_iter().map(local_address).collect();
        }
    }

    /// Whether others can reach this peer at this address of its own.
    pub(crate) fn is_reachable(&self, own: IpAddr) -> bool {
        if own.is_loopback() {
            return self.loopback_only;
        }
        !own.is_unspecified() && !is_link_local_v6(own) && self.interface_of(own).is_none_or(|i| self.filter.accepts(i))
    }

    /// Whether an address that somebody announced should be dialled.
    pub(crate) fn may_dial(&self, ip: IpAddr) -> bool {
        if ip.is_loopback() {
            return self.loopback_only;
        }
        let own = self.addresses.iter().any(|local| local.ip == ip);
        let behind_skipped = self.nearest(ip).is_some_and(|local| !self.filter.accepts(&local.interface));
        !own && !behind_skipped && !ip.is_unspecified() && !ip.is_multicast() && !is_link_local_v6(ip)
    }

    /// Whether an address is of none of our own networks.
    pub(crate) fn is_foreign(&self, ip: IpAddr) -> bool {
        !ip.is_loopback() && self.nearest(ip).is_none()
    }

    /// The interfaces that count and have an IPv4 address, for multicast.
    pub(crate) fn multicast_candidates(&self) -> Vec<(String, std::net::Ipv4Addr)> {
        let counts = |local: &&LocalAddress| !local.ip.is_loopback() && self.filter.accepts(&local.interface);
        let v4 = |local: &LocalAddress| match local.ip {
            IpAddr::V4(ip) => Some((local.interface.clone(), ip)),
            IpAddr::V6(_) => None,
        };
        self.addresses.iter().filter(counts).filter_map(v4).collect()
    }

    fn interface_of(&self, own: IpAddr) -> Option<&str> {
        self.addresses.iter().find(|local| local.ip == own).map(|local| local.interface.as_str())
    }

    /// The address of ours whose network is the smallest that holds `ip`.
    fn nearest(&self, ip: IpAddr) -> Option<&LocalAddress> {
        self.addresses.iter().filter(|local| local.network_holds(ip)).max_by_key(|local| local.prefix_bits)
    }
}

fn local_address(interface: if_addrs::Interface) -> LocalAddress {
    let ip = interface.ip();
    let prefix_bits = match &interface.addr {
        if_addrs::IfAddr::V4(v4) => v4.prefixlen,
        if_addrs::IfAddr::V6(v6) => v6.prefixlen,
    };
    LocalAddress { interface: interface.name, ip, prefix_bits }
}

/// Link-local IPv6 needs a zone, which a multiaddress of libp2p's cannot carry.
fn is_link_local_v6(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(loopback_only: bool) -> Interfaces {
        let address = |interface: &str, ip: &str, prefix_bits| LocalAddress {
            interface: interface.to_owned(),
            ip: ip.parse().unwrap(),
            prefix_bits,
        };
        Interfaces {
            filter: InterfaceFilter::default(),
            loopback_only,
            addresses: vec![
                address("lo", "127.0.0.1", 8),
                address("docker0", "172.17.0.1", 16),
                address("eth0", "10.0.0.1", 24),
                address("eth0", "fd00::1", 64),
                address("wg0", "10.9.0.1", 24),
            ],
        }
    }

    #[test]
    fn names_decide_which_interfaces_count() {
        let filter = InterfaceFilter::default();
        for name in ["eth0", "wlan0", "enp3s0", "br0", "en0"] {
            assert!(filter.accepts(name), "{name}");
        }
        for name in ["docker0", "br-1f2e", "veth12", "virbr0", "cni0", "tun0", "wg0", "tailscale0"] {
            assert!(!filter.accepts(name), "{name}");
        }
        assert!(InterfaceFilter { tunnels: true, ..filter.clone() }.accepts("tun0"));
        let only = InterfaceFilter { only: vec!["eth0".to_owned(), "wl*".to_owned()], ..filter };
        assert_eq!(["eth0", "wlan0", "eth01", "docker0"].map(|name| only.accepts(name)), [true, true, false, false]);
    }

    #[test]
    fn only_addresses_that_can_lead_elsewhere_are_dialled() {
        let machine = machine(false);
        for (ip, dialled) in [
            ("10.0.0.2", true),
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("172.17.0.5", false),
            ("10.9.0.7", false),
            ("192.168.7.7", true),
            ("169.254.3.4", true),
            ("fe80::1", false),
            ("fd00::2", true),
            ("fd00::1", false),
            ("0.0.0.0", false),
            ("224.0.0.251", false),
        ] {
            assert_eq!(machine.may_dial(ip.parse().unwrap()), dialled, "{ip}");
        }
    }

    #[test]
    fn loopback_is_dialled_and_told_only_when_there_is_nothing_else() {
        let loopback = "127.0.0.1".parse().unwrap();
        assert!(machine(true).may_dial(loopback) && machine(true).is_reachable(loopback));
        assert!(!machine(false).may_dial(loopback) && !machine(false).is_reachable(loopback));
    }

    #[test]
    fn addresses_of_skipped_interfaces_are_not_told() {
        let machine = machine(false);
        for (ip, told) in [("10.0.0.1", true), ("172.17.0.1", false), ("fe80::9", false), ("fd00::1", true)] {
            assert_eq!(machine.is_reachable(ip.parse().unwrap()), told, "{ip}");
        }
    }
}
