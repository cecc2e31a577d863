//! Rules about the repository itself, as tests: what a review would otherwise have to look for each time.
//!
//! Each rule reads all files and lists every breach, so that one run shows all there is to mend.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arrows;
mod documents;
mod sources;
mod tree;

/// Fails with every breach on a line of its own.
fn assert_none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}
