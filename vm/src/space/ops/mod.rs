//! The operations of an address space, one file for each call.
//!
//! | file | call | holds |
//! |---|---|---|
//! | `map` | mmap of anonymous memory | the lock, to write |
//! | `map_shared` | mapping shared memory once more, here or in another space | the other's lock, to read; then this one's, to write |
//! | `unmap` | munmap | the lock, to write |
//! | `protect` | mprotect | the lock, to write |
//! | `madvise` | madvise | to write where attributes change; to read where contents do |
//! | `mbind` | mbind | the lock, to write |
//! | `brk` | brk | the lock, to write |
//! | `mincore` | mincore | the lock, to read |
//! | `populate` | MAP_POPULATE, MADV_POPULATE_* | nothing, or the lock to read, for each page |
//! | `exit` | the end of a space | the lock, to write |
//! | `parallel` | how the last two divide large ranges among helpers | |

mod brk;
mod exit;
mod madvise;
mod map;
mod map_shared;
mod mbind;
mod mincore;
mod parallel;
mod populate;
mod protect;
#[cfg(all(test, not(loom)))]
mod tests;
mod unmap;

pub use madvise::Advice;
pub(in crate::space) use map::Destination;
pub use map::{MapRequest, Place, Sharing};
