//! x86-64: everything that is `unsafe` in the kernel, and all of the platform contract.
//!
//! | file | what |
//! |---|---|
//! | `boot` (`boot.s`) | the way from the loader to Rust; starting the other CPUs |
//! | `trap` (`trap.s`) | how the kernel is entered and left: exceptions, interrupts, system calls |
//! | `segments` `vectors` | the CPU's tables for that |
//! | `percpu` | per-CPU state, through GS |
//! | `cpu` `machine` | the library's `Cpu` and `Machine` |
//! | `space` | addresses of the kernel's half |
//! | `tables` | the kernel's own mappings, made with the library |
//! | `apic` `clock` | the local interrupt controller and timer; time |
//! | `smi` | system management interrupts, for a self-test |
//! | `thread` | stacks, and the switch between them |
//! | `spaces` | the space that a thread runs in, and the one that a CPU has loaded |
//! | `helpers` | threads of idle priority that run the library's jobs |
//! | `sse` | SSE state, saved beside a frame |
//! | `user` | memory of programs, touched from the kernel |
//! | `ports` `console` | port I/O; the serial line, and the end of the machine |
//! | `registers` | control and model-specific registers, CPU features |
//! | `rtc` | the clock that runs while the machine is off |
//! | `loader` | the loader's start information |
//! | `bytes` | `memcpy` and its kin |
//! | `events` | the last events that the library reported |
//! | `suite` | the library's conformance suite on this machine |
//! | `upcalls` | calls of machine code to the kernel above it |
//! | `once` | a value that is set once |

pub mod apic;
pub mod boot;
mod bytes;
pub mod clock;
pub mod console;
pub mod cpu;
mod events;
pub mod helpers;
pub mod loader;
pub mod machine;
mod once;
pub mod percpu;
mod ports;
pub mod registers;
mod rtc;
mod segments;
pub mod smi;
pub mod space;
pub mod spaces;
pub mod sse;
pub mod suite;
pub mod tables;
pub mod thread;
pub mod trap;
mod upcalls;
pub mod user;
mod vectors;

pub use cpu::Core;
pub use machine::{MACHINE, Metal};
pub use once::Once;
