//! The mapping and the table that each CPU's last fault found. The next fault is likely to need the same.

use crate::machine::Cpu;
use crate::sync::LastHit;

/// The last hits of one CPU. Only its faults read and write them, in a read section; one line.
#[derive(Debug)]
pub struct LastFault<C: Cpu> {
    mapping: LastHit<C, 1>,
    table: LastHit<C, 2>,
}

impl<C: Cpu> LastFault<C> {
    /// Nothing is cached.
    pub const fn new() -> Self {
        Self { mapping: LastHit::new(), table: LastHit::new() }
    }

    /// The mapping.
    #[inline(always)]
    pub fn mapping(&self) -> &LastHit<C, 1> {
        &self.mapping
    }

    /// The table.
    #[inline(always)]
    pub fn table(&self) -> &LastHit<C, 2> {
        &self.table
    }
}
