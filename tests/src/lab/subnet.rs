//! Addresses of a segment.

use std::fmt;
use std::net::Ipv4Addr;

/// An IPv4 subnet whose hosts are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    base: Ipv4Addr,
    prefix_bits: u8,
}

impl Subnet {
    /// The subnet of `base`, whose last bits must be 0.
    pub const fn new(base: Ipv4Addr, prefix_bits: u8) -> Self {
        Self { base, prefix_bits }
    }

    /// The address of host `number`, from 1.
    pub fn host(self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() + number)
    }

    /// The address as `ip addr add` wants it.
    pub fn interface(self, address: Ipv4Addr) -> String {
        format!("{address}/{}", self.prefix_bits)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix_bits)
    }
}
