//! Real agents: how they are started, what they say about themselves, and what is done to them.

mod cluster;
mod exertion;
mod history;
mod launch;
mod moving;
mod process;
mod running;
mod status;

pub use cluster::{Cluster, FOUND_WITHIN, join, program};
pub use exertion::Exertion;
pub use history::History;
pub use launch::{Fake, Launch, Setting};
pub(crate) use process::run_time;
pub use process::{Signal, children, cpu_time, resident_bytes};
pub use running::{API_WITHIN, Agent};
pub use status::{
    Assignment, Engine, Explanation, Leader, MeasuredMove, MoveOverhead, MoveOverheads, MoveStep, PeerStatus, Standby,
    Status, Terms,
};
