//! The part of the kernel that is tested on the host, see [`core`]. The rest is the program beside it.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod core;
