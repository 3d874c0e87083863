//! Tests of the floor. Walks and sweeps are tested through `space`, which has the mappings for them.

#[cfg(not(loom))]
mod entries;
#[cfg(not(loom))]
mod format;
#[cfg(loom)]
mod loom_cached;
#[cfg(loom)]
mod loom_entries;
#[cfg(loom)]
mod loom_zero_table;
#[cfg(not(loom))]
mod mapper;
#[cfg(not(loom))]
mod marker;
#[cfg(not(loom))]
mod not_owned;
#[cfg(not(loom))]
mod platform;
#[cfg(not(loom))]
mod sweep;
pub(crate) mod testing;
#[cfg(not(loom))]
mod walkers;
#[cfg(not(loom))]
mod walks;
#[cfg(not(loom))]
mod zero_table;
