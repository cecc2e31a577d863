//! How long to wait before a child is started again.
