//! The request machine, driven by hand, by random scripts, by a small world of unreliable workers, and by a model
//! checker.

mod bench;
mod deadlines;
mod leaving;
mod model;

mod moves;
mod nobody;
mod planned;
mod planned_deadlines;
mod random_script;
mod world;

mod writes;
