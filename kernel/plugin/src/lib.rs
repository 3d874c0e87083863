//! A plugin for QEMU: which lines of memory the guest's kernel touches while it handles page faults of one
//! program.
//!
//! The lab's recorder hears of an access because the library reports it. Nothing obliges the library to: an
//! access that goes past the door is not heard. Here the emulator reports every access of every instruction,
//! so the two can be held against each other.
//!
//! A *window* is a stay in the kernel that was not asked for by `syscall`: with the timer off (the kernel's
//! option `count`) and nobody else to interrupt, a page fault. Windows count from the program's mark "begin"
//! to its mark "end", two instructions that do nothing ([`mark`]). At the end the table is written to a file:
//!
//! ```text
//! windows 1000 1000                 of CPU 0 and CPU 1
//! line PHYS VIRT W0 R0 W1 R1        windows of each CPU that wrote the line, and that only read it
//! ```
//!
//! `qemu` is the door to the emulator and holds every `unsafe`; what is counted and how is [`watch`].

pub mod mark;
#[cfg(not(test))]
mod qemu;
pub mod watch;
