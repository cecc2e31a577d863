//! What running a request on a peer is expected to cost.
