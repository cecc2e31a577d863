//! The thread that starts children.
