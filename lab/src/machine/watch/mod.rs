//! The recorder: which CPU touches which line of shared memory, from which place in the source.
//!
//! [`Watch`] is a CPU like [`Host`](crate::machine::host::Host) whose accesses are observed. While a thread
//! [`record`]s, they go to a list; while it takes a [`footprint`], they are counted by field and place,
//! however many there are. Two footprints have [`conflicts`] where one CPU writes a line that the other
//! touches: such lines keep operations from scaling, and they can be found on a machine with two cores as
//! well as on one with two hundred.

mod cpu;
mod footprint;
mod labels;
mod names;
mod nmi;
mod recorder;

pub use cpu::Watch;
pub use footprint::{Conflict, Footprint, Use, conflicts};
pub use labels::{Field, Labels};
pub use names::Names;
pub use nmi::with_nmi_at;
pub use recorder::{Place, Touch, footprint, record, site};
