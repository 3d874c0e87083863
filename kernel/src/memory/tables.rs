//! The kernel's own tables, with the library's frames.

pub use crate::arch::tables::{build, taken_since_boot};

/// Maps a thread's stack, which stays mapped for the threads that have the number later. `None` where there
/// is no memory.
pub fn map_stack(thread: usize) -> Option<()> {
    crate::arch::tables::map_stack(super::vm().memory(), thread)
}
