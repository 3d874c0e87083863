//! The last step of a fault: the table is locked and attached, its entry is the one that was seen, and the
//! mapping is still valid.

use super::decide::Decision;
use super::prepare::Prepared;
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::table::LockedTable;
use crate::units::{Access, Pfn, Rights, Vpn};

/// The slot that a fault writes, with the table's lock held.
pub struct Install<'a, 'v, M: Machine> {
    pub space: &'a AddressSpace<'v, M>,
    pub table: LockedTable<'a, M>,
    pub slot: usize,
    pub page: Vpn,
    pub access: Access,
    /// The mapping's rights.
    pub rights: Rights,
}

impl<'v, M: Machine> Install<'_, 'v, M> {
    /// Applies the decision. The frames it needs are in `prepared`.
    #[inline(always)]
    pub fn apply(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) {
        match decision {
            Decision::MapFrame => {
                if let Some(pfn) = prepared.take_frame() {
                    self.map(pfn, self.rights);
                }
            }
            Decision::MapZeroPage => {
                let denied =
                    if mutant!("fault.zero-page-writable") { Rights::empty() } else { Rights::WRITE };
                self.map(self.space.vm.memory.zero_frame(), self.rights - denied);
            }
            rarer => self.apply_rarer(rarer, prepared),
        }
    }

    /// The rarer decisions. By value, so that `self` lies in memory only here.
    #[inline(never)]
    fn apply_rarer(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) {
        match decision {
            Decision::Nothing | Decision::Wait | Decision::MapFrame | Decision::MapZeroPage => {}
            Decision::MapBacking => {
                if let Some(pfn) = prepared.take_backing() {
                    self.map(pfn, self.rights);
                }
            }
            Decision::ReplaceZeroPage => self.replace_zero_page(prepared),
            Decision::Allow(rights) => self.allow(rights),
        }
    }

    /// Writes a leaf for `pfn` into the slot, which is not present.
    #[inline(always)]
    fn map(&mut self, pfn: Pfn, rights: Rights) {
        // The access is tried again at once: its bits are set now, which spares the hardware's walker a
        // locked write.
        let dirty = self.access == Access::Write;
        self.table.install(self.slot, Entry::Leaf(Leaf { pfn, rights, accessed: true, dirty }));
    }

    /// P9: the frame of a present entry changes through non-present and a flush, else one CPU would go on
    /// reading zeros after another has written. The table's lock is held during the flush. That cannot
    /// deadlock: a CPU that waits for the lock answers flushes.
    fn replace_zero_page(&mut self, prepared: &mut Prepared<'v, M>) {
        let Some(pfn) = prepared.take_frame() else { return };
        self.table.replace(self.slot, Entry::Marker(Marker::Busy));
        if !mutant!("fault.zero-page-not-flushed") {
            self.space.flush_page(&self.table, self.page);
        }
        self.map(pfn, self.rights);
        self.space.vm.count(Counter::ZeroPageReplaced);
    }

    /// Gives the leaf more rights, with the same frame. Needs no flush: a CPU whose TLB has fewer faults, and
    /// finds them here.
    fn allow(&mut self, rights: Rights) {
        let store = self.access == Access::Write;
        let kept = |leaf: Leaf| leaf.dirty && !mutant!("fault.dirty-dropped");
        self.table.adjust(self.slot, |entry| match entry {
            Entry::Leaf(leaf) => {
                Some(Entry::Leaf(Leaf { rights, accessed: true, dirty: kept(leaf) || store, ..leaf }))
            }
            _ => None,
        });
    }
}
