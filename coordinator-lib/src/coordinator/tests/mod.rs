//! Placements and plans from small views, and from any.

mod fleet;
mod follows;
mod full_scan;
mod leading;
mod measured;
mod places;
mod random_inputs;
mod random_views;
mod reserves;
mod rounds;
mod twins;
mod unfit;
