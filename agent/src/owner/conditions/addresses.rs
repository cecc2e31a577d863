//! Whether the machine has an address that another one could reach.

use std::net::IpAddr;

/// Whether any interface has an address that is neither loopback nor link-local (IPv6 gives those to a cable without a
/// network behind it, IPv4 where no network answers); none where the interfaces cannot be listed.
pub(super) fn has_address() -> Option<bool> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    Some(interfaces.iter().any(|interface| reaches(interface.ip())))
}

fn reaches(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_nowhere_are_none() {
        for (address, expected) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("169.254.3.4", false),
            ("fe80::1", false),
            ("192.168.1.2", true),
            ("fd00::2", true),
        ] {
            assert_eq!(reaches(address.parse().unwrap()), expected, "{address}");
        }
        assert!(has_address().is_some());
    }
}
