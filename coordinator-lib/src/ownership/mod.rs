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
//! A planned move, which a coordinator proposes step by step and may withdraw at any, goes beside that:
//!
//! ```text
//!          Prepare                 Hold                    Commit              the log has token m
//! (none) ----------> preparing <---------> holding, ----------------> committing ----------------> running there
//!    ^    the source   | ids are  Pause     paused    StopAfter(m)      |    |   epoch + 1, TakeOver(m + 1)
//!    |    goes on      | forwarded             |                        |    | m does not come in time: the same,
//!    +-----------------+-----------------------+------------------------+    | with what has come
//!      the destination died, was silent, or is released: GoOn where the source was told to stop
//! ```
//!
//! The source lost at any step: the destination takes over at once with what it has. The destination lost: nothing has
//! happened. The destination silent after it took over: a lost worker like any other.
//!
//! A worker that says goodbye with a notice is left its stream until the notice ends or the next worker has said a token:
//! until then that one may pull the KV cache from it. A request that only waits can be placed elsewhere by a plan
//! (`Replace`); one that has begun is moved, or left alone.
//!
//! Deliberately absent: whether a move is worth it (the coordinator's), how a context travels (the shell's), text of any
//! kind but what workers send (the pieces are a pure function of the ids, so those of a second worker join exactly).

mod committing;
mod deadline;
mod error;
mod failures;
mod leaving;
mod limits;
mod log;
mod machine;
mod placing;
mod preparing;
mod replacing;
mod running;
mod spec;
mod standby;
mod story;
#[cfg(test)]
mod tests;

pub use error::{PeerReason, RequestError, RequestErrorKind, Why};
pub use limits::Limits;
pub use log::{NotNext, TokenLog};
pub use machine::{Input, Output, RequestMachine};
pub use spec::RequestSpec;
pub use standby::{Dropped, Preparation, StandbyNews, StandbyReport, StandbyStage};
pub use story::{Assignment, Ending, Fault, LossReason, PulledKv, Silence};
