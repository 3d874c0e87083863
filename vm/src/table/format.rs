//! Bit layouts of table entries, as data.
//!
//! | format | levels | addresses |
//! |---|---|---|
//! | [`X86_64`], [`X86_64La57`] | 4, 5 | virtual, 48 and 57 bits |
//! | [`Aarch64`] | 4, granules of 4 KiB | virtual, 48 bits |
//! | [`Sv39`], [`Sv48`], [`Sv57`] | 3, 4, 5 | virtual, 39, 48 and 57 bits |
//! | [`Ept`] | 4 | a guest's physical ones, 48 bits |
//!
//! A leaf without [`Rights::READ`] is one that the hardware must not use but that keeps its frame
//! (`PROT_NONE`): it is encoded as not present, with a software bit that tells it from a [`Marker`]. Another
//! software bit tells leaves that do not own their frames.
//!
//! Sources: Intel SDM volume 3, chapters 5 (paging) and 30 (EPT); Arm ARM, D8.3 (VMSAv8-64 descriptor
//! formats); RISC-V Privileged Architecture, supervisor-level ISA. Each format is tested against a walker
//! that was written from the manual alone (`table/tests/walkers`).

mod aarch64;
mod ept;
mod riscv;
mod x86_64;

pub use aarch64::Aarch64;
pub use ept::Ept;
pub use riscv::{Riscv, Sv39, Sv48, Sv57};
pub use x86_64::{X86, X86_64, X86_64La57};

#[cfg(doc)]
use crate::machine::Marker;
#[cfg(doc)]
use crate::units::Rights;
