//! Placements from small views.

mod fleet;
mod full_scan;
mod places;
mod random_views;
mod reserves;
mod unfit;
