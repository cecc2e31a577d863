//! What a host's firewall does to its packets, each rule in a table of its own so that it can be lifted alone.

use std::net::Ipv4Addr;

/// A rule on one host. Both directions unless it says otherwise; loopback is never touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Loses this share of packets in each direction, at random.
    Loss {
        /// Percent, 0 to 100.
        percent: u8,
    },
    /// Multicast on `eth0` vanishes without an error, as on a network that does not forward it.
    NoMulticast,
    /// Multicast cannot even be sent: the send call fails.
    MulticastFails,
    /// Nothing passes to or from this address: a partition between two.
    Partition {
        /// The other side.
        from: Ipv4Addr,
    },
    /// Nothing comes in from this address, while all goes out to it.
    Deaf {
        /// The other side.
        to: Ipv4Addr,
    },
    /// UDP vanishes: no QUIC.
    NoUdp,
    /// TCP vanishes: connections stand still, and nobody is told.
    NoTcp,
    /// TCP segments are answered by a reset.
    ResetTcp,
    /// This host translates the addresses of what it forwards out by an interface, and keeps the ports where it can: what
    /// one inside sends from one port has one port outside, whoever it is for.
    Masquerade {
        /// The interface's number: `eth<n>`.
        out: u8,
    },
    /// The same with another port for everyone that is sent to: nobody can tell another where to send.
    MasqueradeAnew {
        /// The interface's number: `eth<n>`.
        out: u8,
    },
    /// This host forwards nothing to or from this address.
    ForwardsNot {
        /// The other side.
        other: Ipv4Addr,
    },
}

impl Filter {
    /// The name of its table.
    pub(super) fn table(self) -> String {
        match self {
            Self::Loss { .. } => "iw_loss".to_owned(),
            Self::NoMulticast => "iw_nomulticast".to_owned(),
            Self::MulticastFails => "iw_multicastfails".to_owned(),
            Self::Partition { from } => format!("iw_partition_{}", from.to_bits()),
            Self::Deaf { to } => format!("iw_deaf_{}", to.to_bits()),
            Self::NoUdp => "iw_noudp".to_owned(),
            Self::NoTcp => "iw_notcp".to_owned(),
            Self::ResetTcp => "iw_resettcp".to_owned(),
            Self::Masquerade { out } => format!("iw_masquerade_{out}"),
            Self::MasqueradeAnew { out } => format!("iw_masquerade_anew_{out}"),
            Self::ForwardsNot { other } => format!("iw_forwards_not_{}", other.to_bits()),
        }
    }

    /// nft's family of its table.
    pub(super) fn family(self) -> &'static str {
        match self {
            Self::NoMulticast => "netdev",
            Self::Masquerade { .. } | Self::MasqueradeAnew { .. } => "ip",
            Self::Loss { .. }
            | Self::MulticastFails
            | Self::Partition { .. }
            | Self::Deaf { .. }
            | Self::NoUdp
            | Self::NoTcp
            | Self::ResetTcp
            | Self::ForwardsNot { .. } => "inet",
        }
    }

    /// The table as nft reads it.
    pub(super) fn rules(self) -> String {
        let table = self.table();
        let (input, output) = match self {
            Self::Loss { percent } => both(&format!("numgen random mod 100 < {percent} drop")),
            Self::NoMulticast => return no_multicast(&table),
            Self::MulticastFails => (String::new(), "ip daddr 224.0.0.0/4 drop".to_owned()),
            Self::Partition { from } => (format!("ip saddr {from} drop"), format!("ip daddr {from} drop")),
            Self::Deaf { to } => (format!("ip saddr {to} drop"), String::new()),
            Self::NoUdp => both("meta l4proto udp drop"),
            Self::NoTcp => both("meta l4proto tcp drop"),
            Self::ResetTcp => both("tcp flags & rst == 0 reject with tcp reset"),
            Self::Masquerade { out } => return masquerade(&table, out, ""),
            Self::MasqueradeAnew { out } => return masquerade(&table, out, "fully-random"),
            Self::ForwardsNot { other } => return forwards_not(&table, other),
        };
        format!(
            "table inet {table} {{\n\
             chain input {{\ntype filter hook input priority 0\niifname \"lo\" accept\n{input}\n}}\n\
             chain output {{\ntype filter hook output priority 0\noifname \"lo\" accept\n{output}\n}}\n\
             }}\n"
        )
    }
}

fn both(rule: &str) -> (String, String) {
    (rule.to_owned(), rule.to_owned())
}

/// Dropped at the interface, where the sending call does not notice; IPv6 too, whose multicast starts with ff.
fn no_multicast(table: &str) -> String {
    let drop = "ip daddr 224.0.0.0/4 drop\nip6 daddr ff02::fb drop";
    let chain = |hook| format!("chain {hook} {{\ntype filter hook {hook} device \"eth0\" priority 0\n{drop}\n}}\n");
    format!("table netdev {table} {{\n{}{}}}\n", chain("ingress"), chain("egress"))
}

fn forwards_not(table: &str, other: Ipv4Addr) -> String {
    let rules = format!("ip saddr {other} drop\nip daddr {other} drop");
    format!("table inet {table} {{\nchain forward {{\ntype filter hook forward priority 0\n{rules}\n}}\n}}\n")
}

fn masquerade(table: &str, out: u8, ports: &str) -> String {
    let rule = format!("oifname \"eth{out}\" masquerade {ports}");
    // As routers are sold: what nobody inside asked for is not even answered. (An answer would take the port that the next
    // packet from inside is to have.)
    let closed = format!("iifname \"eth{out}\" ct state new drop");
    format!(
        "table ip {table} {{\nchain post {{\ntype nat hook postrouting priority 100\n{rule}\n}}\n\
         chain front {{\ntype filter hook input priority 0\n{closed}\n}}\n}}\n"
    )
}
