//! Tests and models of the index.

mod find_cached;
#[cfg(not(loom))]
mod items;
#[cfg(loom)]
mod loom_replace;
mod memory;
#[cfg(not(loom))]
mod misuse;
#[cfg(not(loom))]
mod tree;
