//! What an Idlewild peer decides, apart from what it does: hazards, expected cost, placement and migration.
//!
//! ```text
//! sessions --> hazard --> cost --> policy --> coordinator   where should a request run?
//! digests  --> view  ----------------------------^
//!                \-----> election                           who answers that?
//!                        ownership                          the request itself, at its origin
//! answers  --> length                                       how many tokens are still to come?
//! ```
//!
//! Pure and sans-I/O: time, seeds and measurements are arguments, so that the same call gives the same answer in the
//! agent, in a test and in a simulation. Arrows point one way: `hazard` <- `cost` <- `policy` <- `coordinator`;
//! `election`, `ownership` and `length` know none of them.
//!
//! From sessions to a placement:
//!
//! ```
//! use idlewild_coordinator::cost::{PeerRates, Work};
//! use idlewild_coordinator::hazard::{Hazard, KaplanMeier, Session};
//! use idlewild_coordinator::policy::{Fleet, FleetPeer, HazardAwarePolicy, Policy};
//!
//! // The laptop's owner is back within a minute, as a rule; the desktop is left alone for hours.
//! let laptop = KaplanMeier::fit(&[30.0, 45.0, 60.0].map(Session::ended));
//! let desktop = KaplanMeier::fit(&[7200.0, 14_400.0].map(Session::ended));
//! let rates = PeerRates {
//!     decode_tps: 20.0,
//!     prefill_tps: 300.0,
//!     bandwidth_bps: 1e7,
//!     kv_bytes_per_token: 28_672.0,
//!     room_tokens: 8192,
//! };
//! let peer = |id, decode_tps, curve| FleetPeer {
//!     id,
//!     rates: PeerRates { decode_tps, ..rates },
//!     load_s: 0.0,
//!     hazard: Hazard { curve, age_s: 5.0 },
//!     known_remaining_s: None,
//! };
//! let fleet = Fleet::new(vec![peer("laptop", 25.0, &laptop), peer("desktop", 20.0, &desktop)]);
//!
//! // 1000 tokens of prompt, 800 of output: 35 s on the laptop, 43 s on the desktop, if they stay.
//! let placement = HazardAwarePolicy::default().place(&fleet, &Work::fresh(1000, 800));
//! assert_eq!(placement.chosen, Some("desktop"));
//! for assessment in placement.ranked() {
//!     println!("{}: {:?}", assessment.peer, assessment.verdict);
//! }
//! ```
//!
//! With the feature `sim`, whole swarms are simulated with the rules of this crate: `sim`.
//!
//! Deliberately absent: clocks, threads, files, sockets, the environment, and anything whose order hangs on a hash seed.

pub mod coordinator;
pub mod cost;
pub mod election;
pub mod hazard;
pub mod length;
pub mod ownership;
pub mod policy;
#[cfg(feature = "sim")]
pub mod sim;
pub mod view;

mod pairs;

/// Time since the agent started, by a monotonic clock that counts suspension. The shell gives it.
pub type Now = core::time::Duration;
