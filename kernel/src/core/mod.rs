//! The part of the kernel that needs no machine: parsers of the data of firmware, boot loader and program
//! files. These data are untrusted; each kind has one checked parser, which is tested on the host. That of
//! program files is `interleaf_linux_abi::elf`, which the lab uses too.
//!
//! | file | reads |
//! |---|---|
//! | [`firmware`] | the memory map, and makes the library's boot map of it |
//! | [`options`] | the command line |
//! | [`calendar`] | the clock that runs while the machine is off |
//! | [`signal`] | the frame of a signal, which it lays out as well |
//! | [`stack`] | nothing: it lays out the initial stack of a program |
#![forbid(unsafe_code)]

pub mod calendar;
pub mod firmware;
pub mod options;
pub mod signal;
pub mod stack;
