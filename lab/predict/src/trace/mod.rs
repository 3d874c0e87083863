//! Recorded programs: what the threads of one process did to its memory, on the CPUs of a machine of virtual
//! time.
//!
//! ```text
//!   trace ─► program: image, steps with think times ─► order: which steps wait for which ─► play
//! ```
//!
//! A thread stays on one CPU. Between two steps of a CPU its threads compute as long as they did when they
//! were recorded, waiting for others included. A step waits for those of other threads that touched or made
//! the same memory before it: so a fault comes after the mmap of its memory, and munmap after the faults
//! there, however the clocks differ. All memory is private and anonymous here; what the library does for
//! files is not predicted.

mod mappings;
mod play;
mod program;

pub use play::Replay;
pub use program::RecordedProgram;
