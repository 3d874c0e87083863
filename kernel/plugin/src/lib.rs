//! A plugin for QEMU: which lines of memory the guest's kernel touches while it handles page faults of one
//! program.
//!
//! The lab's recorder sees an access because the library reports it, through its atomics. An access past them
//! is not reported. Here the emulator reports every access of every instruction, so the two can be compared.
//!
//! A *window* is a stay in the kernel that did not begin with `syscall`: with the timer off (the kernel's
//! option `count`) and no other interrupts, a page fault. Windows count from the program's mark "begin" to
//! its mark "end", two instructions that do nothing ([`mark`]). At the end the table is written to a file:
//!
//! ```text
//! windows 1000 1000                 of CPU 0 and CPU 1
//! line PHYS VIRT W0 R0 W1 R1        windows of each CPU that wrote the line, and that only read it
//! ```
//!
//! `qemu` is the interface to the emulator and holds every `unsafe`; [`watch`] counts.

pub mod mark;
#[cfg(not(test))]
mod qemu;
pub mod watch;
