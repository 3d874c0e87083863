//! Models of the protocol: an owner against a revoker.

mod loom_cell;
mod loom_locks;
