//! What machine code calls in the kernel above it: the only file of this floor that names higher ones.
//!
//! | called by | what |
//! |---|---|
//! | `boot` | the boot CPU's main function; stacks for the other CPUs, which then run their idle threads |
//! | `trap` | a program's calls, exceptions and failed faults; its exit from the kernel; a report |
//! | `thread`, `spaces` | what follows a switch of threads; the end of a thread |
//! | `cpu` | sleeping, waking, and yielding |
//! | `helpers` | threads for helpers |

pub(super) use crate::linux::call as system_call;
pub(super) use crate::main_of_boot_cpu;
pub(super) use crate::memory::tables::map_stack;
pub(super) use crate::report;
pub(super) use crate::task::{process, sched, signal};
