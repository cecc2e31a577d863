//! An Ethernet: what hosts are attached to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use super::Subnet;
use super::namespace::Namespace;
use crate::relay::{Path, Relay};

/// An Ethernet with addresses of its own. Cloning it gives another handle.
#[derive(Clone)]
pub struct Segment(Arc<Inner>);

struct Inner {
    subnet: Subnet,
    /// Hosts that were attached so far: the next one's address.
    attached: AtomicU32,
    kind: Kind,
}

enum Kind {
    Bridge { name: String },
    Relay { relay: Relay, path: Path },
}

/// How a host's interface reaches the segment.
pub(super) enum Port<'a> {
    /// By a veth pair whose other end is enslaved to this bridge.
    Bridge(&'a str),
    /// By a TAP device that this switch reads.
    Relay(&'a Relay, Path),
}

impl Segment {
    pub(super) fn bridge(switches: &Namespace, (number, subnet): (u32, Subnet)) -> Result<Self> {
        let name = format!("lan{number}");
        // Snooping without a querier would cut multicast off after some minutes.
        switches.ip(&format!("link add {name} type bridge mcast_snooping 0 forward_delay 0"))?;
        switches.ip(&format!("link set {name} up"))?;
        Ok(Self::new(subnet, Kind::Bridge { name }))
    }

    pub(super) fn relay(path: Path, subnet: Subnet) -> Result<Self> {
        Ok(Self::new(subnet, Kind::Relay { relay: Relay::start()?, path }))
    }

    fn new(subnet: Subnet, kind: Kind) -> Self {
        Self(Arc::new(Inner { subnet, attached: AtomicU32::new(0), kind }))
    }

    /// Its addresses.
    pub fn subnet(&self) -> Subnet {
        self.0.subnet
    }

    /// Frames that its switch delivered and dropped; none where it is a bridge.
    pub fn relay_counts(&self) -> Option<(u64, u64)> {
        match &self.0.kind {
            Kind::Bridge { .. } => None,
            Kind::Relay { relay, .. } => Some(relay.counts()),
        }
    }

    /// The number of the next host, from 1.
    pub(super) fn next_host(&self) -> u32 {
        self.0.attached.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn port(&self) -> Port<'_> {
        match &self.0.kind {
            Kind::Bridge { name } => Port::Bridge(name),
            Kind::Relay { relay, path } => Port::Relay(relay, *path),
        }
    }
}
