//! Linux's binary interface to memory, over the library: what a kernel and the lab share.
//!
//! | file | what |
//! |---|---|
//! | `errno` | error numbers, and which one each of the library's errors has |
//! | `flags` | `PROT_*`, `MAP_*`, `MREMAP_*` |
//! | `advice` | `MADV_*`, and what they mean to the library |
//! | `policy` | `MPOL_*`, likewise |
//! | `number` | numbers of system calls |
//! | `task` | flags of calls about threads |
//! | `calls` | the calls: untrusted words in, errors in Linux's order out |
//!
//! Numbers come from `linux-raw-sys`, which has them from Linux's own headers, for x86-64. What a word may
//! not be is refused here, in the order in which Linux looks at it; everything else is the library's.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod advice;
mod calls;
mod errno;
mod flags;
pub mod number;
mod policy;
pub mod task;
#[cfg(test)]
mod tests;

pub use calls::{brk, check_mincore, madvise, map_request, mbind, mmap, mprotect, munmap};
pub use errno::Errno;
pub use flags::{MREMAP_DONTUNMAP, MREMAP_FIXED, MapFlags, Prot};
pub use policy::policy;
