//! Threads, the processes that they run, and their signals.
//!
//! | file | holds |
//! |---|---|
//! | [`sched`] | the run queue; sleeping and waking by address |
//! | [`process`] | processes, their families, how they end |
//! | [`birth`] | fork and vfork |
//! | [`program`] | the program that the machine is booted for: loaded, run, recounted |
//! | [`signal`] | SIGSEGV as a program may handle it |
//!
//! A thread's stack and the switch from one to another are the machine's: `arch::thread`.
#![forbid(unsafe_code)]

pub mod birth;
pub mod process;
pub mod program;
pub mod sched;
pub mod signal;
