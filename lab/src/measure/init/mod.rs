//! Booting the frame table of a large machine, for real.
//!
//! The records are real memory, dirty and present before the clock starts; the frames behind them are
//! addresses, most of which nobody touches. So the table of a machine with a terabyte can be initialised on
//! one that has 24 GiB.
//!
//! | file | what |
//! |---|---|
//! | `map` | the memory map of a machine that is made up |
//! | `scene` | one boot, timed |
//! | `report` | the table of all boots, for people and programs |

pub mod map;
pub mod report;
pub mod scene;

pub use map::{Holes, World};
pub use scene::{Boot, Scene};
