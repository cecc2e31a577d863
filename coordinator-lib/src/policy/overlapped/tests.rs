//! What the corrected rule decides, on situations small enough to follow by hand.
