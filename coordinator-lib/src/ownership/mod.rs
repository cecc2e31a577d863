//! One request at its origin: the only authority over it, and the only writer of its token log.
//!
//! ```text
//!            AskPlacement / PlaceAlone           Start                    Finished
//! (new) --> placing ----------------> (Placed) -------> running on a worker -------> over
//!              ^   Nowhere: ask again, soon                 |
//!              |            then Failed                     | lost, silent, failed, leaving
//!              +--------------------------------------------+   epoch + 1, with the ids so far
//! ```
//!
//! Invariant: the origin accepts token n of epoch e only if e is the live epoch and n is the next index. Whatever
//! coordinators propose, workers repeat or networks reorder, no token is lost, doubled or moved.
//!
//! The shell delivers [`Input`]s, does what each [`Output`] says, and ticks at [`RequestMachine::poll_timeout`]. It
//! takes no decision: whom to exclude, when to stop waiting and when to give up is decided here.
//!
//! Deliberately absent: preparing a destination while the source goes on (another issue), text of any kind but what
//! workers send (the pieces are a pure function of the ids, so those of a second worker join exactly).

mod deadline;
mod error;
mod failures;
mod limits;
mod log;
mod machine;
mod placing;
mod running;
mod spec;
mod story;
#[cfg(test)]
mod tests;

pub use error::{PeerReason, RequestError, RequestErrorKind, Why};
pub use limits::Limits;
pub use log::{NotNext, TokenLog};
pub use machine::{Input, Output, RequestMachine};
pub use spec::RequestSpec;
pub use story::{Assignment, Ending, Fault, LossReason, Silence};
