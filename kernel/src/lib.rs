//! The part of the kernel that needs no machine: it reads what firmware, boot loader and program files say.
//! All of that is untrusted; each has one checked way through, which the host's tests take too.
//!
//! | file | reads |
//! |---|---|
//! | [`firmware`] | the memory map, and makes the library's boot map of it |
//! | [`options`] | the command line |
//! | [`elf`] | a static program |
//! | [`stack`] | nothing: it lays out the stack that a program starts on |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod elf;
pub mod firmware;
pub mod options;
pub mod stack;
