//! Ownership without a fence: the owner pays no fence, the other side pays the barrier.

mod cell;
mod locks;
#[cfg(all(test, loom))]
#[path = "tests/loom_locks.rs"]
mod loom_locks;

pub(crate) use cell::{AsymmetricCell, revoke_all};
pub use locks::AsymmetricLocks;
