//! Threads, the program that they run, and its signals.
//!
//! | file | holds |
//! |---|---|
//! | [`sched`] | the run queue; sleeping and waking by address |
//! | [`process`] | the program in ring 3: loaded, started, ended, recounted |
//! | [`signal`] | SIGSEGV as a program may handle it |
//!
//! A thread's stack and the switch from one to another are the machine's: `arch::thread`.
#![forbid(unsafe_code)]

pub mod process;
pub mod sched;
pub mod signal;
