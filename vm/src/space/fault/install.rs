//! How a fault changes the entry it found: a pure decision, made without a lock; and the write, under the
//! table's lock, when the table is attached, its entry is the one that was seen, and the mapping is valid.

use super::prepare::Prepared;
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::table::{LeafBits, LockedTable};
use crate::units::{Access, Pfn, Rights, Vpn};

/// A decision, made without a lock from an entry read once; applied under the table's lock if the entry is
/// still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Decision {
    /// The entry allows the access: another CPU was faster, or this CPU's TLB knew less.
    Nothing,
    /// Another CPU is changing the entry: give up and try again.
    Wait,
    /// The entry is of a kind that faults do not know: nothing to wait for.
    Refuse,
    /// Map the zero page, which costs no frame.
    MapZeroPage,
    /// Map a zeroed frame of the space's own.
    MapFrame,
    /// Map a zeroed frame of the space's own in the place of the zero page, which other CPUs may still use.
    ReplaceZeroPage,
    /// Map the backing's frame for this page.
    MapBacking,
    /// Give the leaf these rights; its frame stays.
    Allow(Rights),
}

/// The inputs of the decision, besides the entry.
#[derive(Clone, Copy, Debug)]
pub struct FaultInputs {
    /// Whether the mapping is private and filled with zeros.
    pub private_anonymous: bool,
    /// The mapping's rights, which allow the access.
    pub rights: Rights,
    /// The kind of access.
    pub access: Access,
    /// The frame of the zero page.
    pub zero: Pfn,
}

/// Decides how to change `entry`.
#[inline(always)]
pub fn decide(entry: Entry, inputs: FaultInputs) -> Decision {
    match entry {
        Entry::Absent if !inputs.private_anonymous => Decision::MapBacking,
        Entry::Absent if inputs.access == Access::Write => Decision::MapFrame,
        Entry::Absent => Decision::MapZeroPage,
        Entry::Marker(Marker::Unknown) => Decision::Refuse,
        Entry::Marker(Marker::Busy) | Entry::Table(_) => Decision::Wait,
        Entry::Leaf(leaf) => decide_present(leaf, inputs),
    }
}

fn decide_present(leaf: Leaf, inputs: FaultInputs) -> Decision {
    if leaf.rights.contains(inputs.access.needs()) {
        Decision::Nothing
    } else if leaf.pfn != inputs.zero {
        Decision::Allow(inputs.rights)
    } else if inputs.access == Access::Write {
        Decision::ReplaceZeroPage
    } else {
        Decision::Allow(inputs.rights - Rights::WRITE)
    }
}

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
                if let Some(frame) = prepared.take_frame() {
                    self.table.install(self.slot, frame, self.bits(self.rights));
                }
            }
            Decision::MapZeroPage => self.table.install_zero(self.slot, self.bits(self.rights)),
            rarer => self.apply_rarer(rarer, prepared),
        }
    }

    /// The rarer decisions. By value, so that `self` lies in memory only here.
    #[inline(never)]
    fn apply_rarer(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) {
        match decision {
            Decision::Nothing | Decision::Wait | Decision::Refuse => {}
            Decision::MapFrame | Decision::MapZeroPage => {}
            Decision::MapBacking => {
                if let Some(frame) = prepared.take_backing() {
                    self.table.install(self.slot, frame, self.bits(self.rights));
                }
            }
            Decision::ReplaceZeroPage => self.replace_zero_page(prepared),
            Decision::Allow(rights) => self.allow(rights),
        }
    }

    /// The bits of the leaf. The access is tried again at once: its bits are set now, which spares the
    /// hardware's walker a locked write.
    #[inline(always)]
    fn bits(&self, rights: Rights) -> LeafBits {
        LeafBits { rights, accessed: true, dirty: self.access == Access::Write }
    }

    /// P9: the frame of a present entry changes through non-present and a flush, else one CPU would go on
    /// reading zeros after another has written. The table's lock is held during the flush. That cannot
    /// deadlock: a CPU that waits for the lock answers flushes.
    fn replace_zero_page(&mut self, prepared: &mut Prepared<'v, M>) {
        let Some(frame) = prepared.take_frame() else { return };
        if !self.table.mark(self.slot, Marker::Busy) {
            return;
        }
        if !mutant!("fault.zero-page-not-flushed") {
            self.space.flush_page(&self.table, self.page);
        }
        self.table.install(self.slot, frame, self.bits(self.rights));
        self.space.vm.count(Counter::ZeroPageReplaced);
    }

    /// Gives the leaf more rights, with the same frame. Other CPUs need no flush: one whose TLB has fewer
    /// faults, and finds them here.
    fn allow(&mut self, rights: Rights) {
        let store = self.access == Access::Write;
        if store && !mutant!("fault.lazyfree-kept") {
            self.table.set_lazyfree(self.slot, false);
        }
        let kept = |leaf: Leaf| leaf.dirty && !mutant!("fault.dirty-dropped");
        self.table
            .adjust(self.slot, |leaf| Some(LeafBits { rights, accessed: true, dirty: kept(leaf) || store }));
    }
}
