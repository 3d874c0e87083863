//! Threads, the processes that they run, and their signals.
//!
//! | file | holds |
//! |---|---|
//! | [`sched`] | the run queue; sleeping and waking by address |
//! | [`process`] | the table of processes, their threads, how one ends |
//! | [`family`] | children and orphans, wait4, processes that share a space |
//! | [`fork`] | fork and vfork |
//! | [`resident`] | how much memory processes had at most |
//! | [`khugepaged`] | the thread that collapses base pages into huge ones |
//! | [`files`] | a process's open files |
//! | [`program`] | the program that the machine is booted for: loaded, run, recounted |
//! | [`signal`] | exceptions and refused faults: signals as a program handles them, else the end |
//!
//! A thread's stack and the switch from one to another are the machine's: `arch::thread`.
#![forbid(unsafe_code)]

pub mod family;
pub mod files;
pub mod fork;
pub mod khugepaged;
pub mod process;
pub mod program;
pub mod resident;
pub mod sched;
pub mod signal;
