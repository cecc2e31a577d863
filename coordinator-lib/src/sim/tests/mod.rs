//! Runs of small scenarios, by hand and by the thousand.

mod conservation;
mod coordinated;
mod determinism;
mod document;
mod moves;
mod small;
mod timing;
