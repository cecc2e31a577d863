//! Who coordinates: a majority of the live view elects, and a higher term always wins.
//!
//! ```text
//!            alone in the live view                 others appear, no beat comes
//! Looking ---------------------------> Alone --------------------------------+
//!    |  \                                                                    |
//!    |   \ nobody leads: after a delay by rank                               v
//!    |    +----------------------------------------------------------> Standing
//!    |                                                                  |    |
//!    |  a beat: follow                                     majority     |    | no majority: again, later
//!    v                                                                  v    v
//! Following <------------- a beat of a higher term ----------------- Leading  (Looking)
//!    | beats missed, or the leader left the live view: Looking
//! ```
//!
//! The live view of two peers need not be the same, and a partition gives both sides a majority of what they see. So
//! that a term still has one leader at most, a term belongs to its candidate: its upper half is the round, its lower
//! half comes from the candidate's id ([`Term`](idlewild_protocol::Term) compares as a number). A peer votes once a
//! round, in no round below one it voted in, and says so to the disk before it says so to the candidate.
//!
//! A peer that is alone coordinates for itself at once, without a vote, and never tells anybody: as soon as it hears a
//! leader's beat it follows. So a peer that restarts, or was cut off by itself, deposes nobody when it comes back.
//!
//! A member may lie. It can call itself a leader, for as long as it is heard (a worse choice, never a wrong stream), but it
//! cannot spend the rounds: they rise by [`ROUNDS_AHEAD_MAX`] a beat at most, and words of rounds beyond count for
//! nothing.
//!
//! Whoever hears a live leader refuses to vote. So a candidate that ranks better deposes nobody either, nor does one
//! that cannot hear the leader while the others can.
//!
//! Deliberately absent: the live view itself (an input), clocks and disks (inputs and outputs), and any effect on
//! running requests: a change of leader touches none, since their origins own them.

mod machine;
mod ranking;
mod role;
mod rounds;
mod talk;
#[cfg(test)]
mod tests;
mod timing;

pub use machine::{Election, Input, Output};
pub use ranking::Candidate;
pub use rounds::{ROUNDS_AHEAD_MAX, owns, round, term_of};
pub use timing::Timing;
