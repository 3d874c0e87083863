//! The table of zeros: 512 entries that show the zero page, for slots that show it
//! [by table](crate::machine::LeafKind::BY_TABLE).
//!
//! Here is which frame it is: a word of each zone, written once. What is in it is the format's matter, so the
//! floor above fills it. It is kept for good, so no user is counted: a frame for each node at most.

use super::{TableFrame, ZeroPages};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::Pfn;

/// Where the table of a zone is: its frame plus 1; 0 for none. Written once, with release after the table was
/// filled; pairs with the acquire of [`get`](Self::get).
#[derive(Debug)]
pub(super) struct ZeroTableCell<C: Cpu>(AtomicU64<C>);

impl<C: Cpu> ZeroTableCell<C> {
    /// No table.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The table, if there is one.
    pub fn get(&self) -> Option<Pfn> {
        self.0.load(Acquire).checked_sub(1).map(Pfn)
    }

    /// Makes `pfn` the table, unless there is one.
    fn place(&self, pfn: Pfn) -> bool {
        let order = if mutant!("zero.table-placed-relaxed") { Relaxed } else { Release };
        self.0.compare_exchange(0, pfn.0 + 1, order, Relaxed).is_ok()
    }
}

impl<'m, M: Machine> ZeroPages<'m, M> {
    /// The table of zeros to show from this CPU: with [pages for each
    /// node](super::HugeZeroOptions::per_node), that of its node.
    #[inline]
    pub(crate) fn table(self) -> Option<Pfn> {
        self.local_table().get()
    }

    /// Keeps the table, of this memory, as the one to show from this CPU, for good. `Err` with the table
    /// where there is one already. The caller has filled it with entries that show the zero page, never to
    /// write, and marked as accessed; it is not written from now on.
    pub(crate) fn place_table<'t>(self, table: TableFrame<'t, M>) -> Result<Pfn, TableFrame<'t, M>> {
        if self.local_table().place(table.pfn()) { Ok(table.keep(self.memory)) } else { Err(table) }
    }

    #[inline]
    fn local_table(self) -> &'m ZeroTableCell<M::Cpu> {
        self.memory.zones[self.local()].zero_table()
    }

    /// Whether the frame is a table of zeros. The answer "yes" stays.
    pub fn is_table(self, pfn: Pfn) -> bool {
        self.memory.zones.iter().any(|zone| zone.zero_table().get() == Some(pfn))
    }

    /// Frames of tables of zeros: they are allocated, and stay so.
    pub fn table_frames(self) -> u64 {
        self.memory.zones.iter().filter(|zone| zone.zero_table().get().is_some()).count() as u64
    }
}
