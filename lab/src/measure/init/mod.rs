//! Booting the frame table of a large machine, for real.
//!
//! The records are real memory, dirty and present before the clock starts; the frames behind them are
//! addresses, most of which are never touched. So the table of a machine with a terabyte can be initialised
//! on one that has 24 GiB.
//!
//! | file | what |
//! |---|---|
//! | `memory_map` | the memory map of a machine that is made up |
//! | `boot` | one boot, timed |
//! | `report` | the table of all boots, for people and programs |

pub mod boot;
pub mod memory_map;
pub mod report;

pub use boot::{Boot, BootMachine};
pub use memory_map::{Holes, MemoryMap};
