//! What is recounted.

use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Path, Vm};
use interleaf_lab::machine::soft::{Flavour, SoftMachine};

/// A machine at rest: no CPU maps, faults or frees while it is inspected. The caller runs on one of its CPUs.
pub struct QuiescentSystem<'a, 'v, C: Flavour, F: Format> {
    /// The machine.
    pub machine: &'a SoftMachine<C, F>,
    /// What its spaces share.
    pub vm: &'a Vm<'v, SoftMachine<C, F>>,
    /// All spaces of the machine.
    pub spaces: &'a [&'a AddressSpace<'v, SoftMachine<C, F>>],
    /// Which way the faults of all spaces went, those that are gone included.
    pub path: Path,
}

/// An error with the text of `otherwise` unless `holds`.
pub(super) fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
