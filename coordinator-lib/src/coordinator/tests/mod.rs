//! Placements from small views.

mod fleet;
mod places;
mod random_views;
mod reserves;
mod unfit;
