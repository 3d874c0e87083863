//! What each CPU's last fault found: the mapping, and the table. The next fault is likely to want the same.

use crate::machine::Cpu;
use crate::sync::tree::Recent;
use crate::table::RecentTable;

/// One CPU's. Read and written by its faults alone, in a read section; one line.
#[derive(Debug)]
pub struct RecentFault<C: Cpu> {
    mapping: Recent<C>,
    table: RecentTable<C>,
}

impl<C: Cpu> RecentFault<C> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { mapping: Recent::new(), table: RecentTable::new() }
    }

    /// The mapping.
    #[inline(always)]
    pub fn mapping(&self) -> &Recent<C> {
        &self.mapping
    }

    /// The table.
    #[inline(always)]
    pub fn table(&self) -> &RecentTable<C> {
        &self.table
    }
}
