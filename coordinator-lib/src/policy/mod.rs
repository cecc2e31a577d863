//! Where a request runs, and when it moves.
