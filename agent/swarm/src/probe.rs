//! Probe (landing next).
/// What a probe measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Bytes a second towards the peer.
    pub up_bytes_per_s: u64,
    /// Bytes a second from the peer.
    pub down_bytes_per_s: u64,
}
pub(crate) async fn run(_: &crate::Swarm, _: idlewild_protocol::PeerId) -> Result<Probe, crate::ProbeError> {
    Err(crate::ProbeError::NoBulk)
}
