//! Linux's binary interface to memory, over the library, shared by kernels and the lab.
//!
//! | file | what |
//! |---|---|
//! | `errno` | error numbers, and the number of each of the library's errors |
//! | `flags` | `PROT_*`, `MAP_*`, `MREMAP_*` |
//! | `advice` | `MADV_*`, and their meaning to the library |
//! | `policy` | `MPOL_*`, likewise |
//! | `prctl` | `PR_*_THP_DISABLE`, likewise |
//! | `number`, `call_name` | numbers of system calls, and the name of each |
//! | `elf` | static programs |
//! | `signal` | signals, their codes and flags |
//! | `task` | flags of calls about threads and processes, and clocks |
//! | `calls` | the calls: untrusted words in, errors in Linux's order out |
//!
//! Numbers come from `linux-raw-sys`, which has them from Linux's own headers, for x86-64. Invalid words are
//! refused here, in the order of Linux's checks; the library does everything else.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod advice;
mod call_name;
mod calls;
pub mod elf;
mod errno;
mod files;
mod flags;
pub mod number;
mod policy;
mod prctl;
pub mod signal;
pub mod task;
#[cfg(test)]
mod tests;

pub use call_name::call_name;
pub use calls::{brk, check_mincore, madvise, map_request, mbind, mmap, mprotect, mremap, munmap};
pub use errno::Errno;
pub use files::{REMOVE, msync, remove};
pub use flags::{MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, MapFlags, Prot};
pub use policy::{misplaced, policy, read_nodes};
pub use prctl::{prctl, thp_disable};
