//! How long a peer is expected to stay.
