//! The last step of a fault: the table is locked, attached, its entry is what was seen, and the mapping
//! holds.

use super::AddressSpace;
use super::carried::Carried;
use super::counters::Counter;
use super::plan::Plan;
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::table::LockedTable;
use crate::units::{Access, Pfn, Rights, Vpn, VpnRange};

/// Where a fault lands, with the table's lock held.
pub struct Landing<'a, 'v, M: Machine> {
    pub space: &'a AddressSpace<'v, M>,
    pub table: LockedTable<'a, M>,
    pub slot: usize,
    pub page: Vpn,
    pub access: Access,
    /// What the mapping allows.
    pub rights: Rights,
}

impl<'v, M: Machine> Landing<'_, 'v, M> {
    /// Does what was planned. The frames it needs are in `carried`.
    #[inline(always)]
    pub fn carry_out(mut self, plan: Plan, carried: &mut Carried<'v, M>) {
        match plan {
            Plan::Own => {
                if let Some(pfn) = carried.take_frame() {
                    self.install(pfn, self.rights);
                }
            }
            Plan::ShowZero => {
                let denied =
                    if mutant!("fault.zero-page-writable") { Rights::empty() } else { Rights::WRITE };
                self.install(self.space.vm.memory.zero_frame(), self.rights - denied);
            }
            rarer => self.carry_out_rarer(rarer, carried),
        }
    }

    /// By value, so that a landing lies in memory only here.
    #[inline(never)]
    fn carry_out_rarer(mut self, plan: Plan, carried: &mut Carried<'v, M>) {
        match plan {
            Plan::Nothing | Plan::Wait | Plan::Own | Plan::ShowZero => {}
            Plan::ShowBacking => {
                if let Some(pfn) = carried.take_backing() {
                    self.install(pfn, self.rights);
                }
            }
            Plan::ReplaceZero => self.replace_zero(carried),
            Plan::Allow(rights) => self.allow(rights),
        }
    }

    #[inline(always)]
    fn install(&mut self, pfn: Pfn, rights: Rights) {
        // The access is tried again at once: its bits are set now, which spares the hardware's walker a
        // locked write.
        let dirty = self.access == Access::Write;
        self.table.install(self.slot, Entry::Leaf(Leaf { pfn, rights, accessed: true, dirty }));
    }

    /// P9: the frame of a present entry changes through non-present and a flush, else one CPU would go on
    /// reading zeros after another has written. The table's lock is held meanwhile, so nobody waits for us
    /// with something that we wait for: who waits for the lock answers flushes.
    fn replace_zero(&mut self, carried: &mut Carried<'v, M>) {
        let Some(pfn) = carried.take_frame() else { return };
        self.table.replace(self.slot, Entry::Marker(Marker::Busy));
        if !mutant!("fault.zero-page-not-flushed") {
            self.space.flush(VpnRange::new(self.page, self.page.add(1)));
        }
        self.install(pfn, self.rights);
        self.space.vm.count(Counter::ZeroPageReplaced);
    }

    /// More rights for the same frame need no flush: a CPU that remembers fewer faults, and finds them here.
    fn allow(&mut self, rights: Rights) {
        let store = self.access == Access::Write;
        self.table.adjust(self.slot, |entry| match entry {
            Entry::Leaf(leaf) => {
                Some(Entry::Leaf(Leaf { rights, accessed: true, dirty: leaf.dirty || store, ..leaf }))
            }
            _ => None,
        });
    }
}
