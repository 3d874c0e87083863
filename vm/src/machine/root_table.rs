//! A root that a CPU may load.

use crate::units::Pfn;

/// The root of tables that the hardware may walk: what [`Machine::load_root`](super::Machine::load_root)
/// takes.
///
/// Safe code has none but by way of a space: code that could load any frame as a root would have a CPU
/// translate through what a program has written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootTable(Pfn);

impl RootTable {
    /// The root table in the frame `pfn`.
    ///
    /// # Safety
    /// The frame holds a table of the root's level in the machine's format, and all tables that can be
    /// reached from it are tables of their levels, for as long as a CPU has the root loaded. Their leaves map
    /// only memory that code which runs under this root may use with the leaf's rights.
    pub const unsafe fn new(pfn: Pfn) -> Self {
        Self(pfn)
    }

    /// Its frame.
    pub const fn pfn(self) -> Pfn {
        self.0
    }
}
