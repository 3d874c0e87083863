//! Tests of mappings: the decisions, drawn as pictures; records; the index compared with a list.

#[cfg(not(loom))]
mod attributes;
#[cfg(not(loom))]
mod check;
#[cfg(not(loom))]
mod flags;
#[cfg(loom)]
mod loom_record;
#[cfg(not(loom))]
mod mthp;
#[cfg(not(loom))]
mod picture;
#[cfg(not(loom))]
mod pictures;
#[cfg(not(loom))]
mod placing;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
mod racing;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod small_worlds;
#[cfg(not(loom))]
mod tree;
#[cfg(not(loom))]
mod world;
