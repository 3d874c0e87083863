//! Bit layouts of table entries: x86-64 with 4 and 5 levels, AArch64 with 4 KiB granules.
//!
//! A leaf without [`Rights::READ`] is one that the hardware must not use but that keeps its frame
//! (`PROT_NONE`): it is encoded as not present, with a software bit that tells it from a [`Marker`].
//!
//! Sources: Intel SDM volume 3, chapter 5 (paging); Arm ARM, D8.3 (VMSAv8-64 descriptor formats).

mod aarch64;
mod x86_64;

pub use aarch64::Aarch64;
pub use x86_64::{X86, X86_64, X86_64La57};

#[cfg(doc)]
use crate::machine::Marker;
#[cfg(doc)]
use crate::units::Rights;
