//! Elections of N machines on one event heap, and of three in a model checker.

mod behaviour;
mod model;

mod net;
mod seeds;
mod words;
