//! How a fault changes the entry it found: a pure decision, made without a lock; and the write, under the
//! table's lock, when the table is attached, its entry is the one that was seen, and the mapping is valid.

use super::Fallback;
use super::prepare::Prepared;
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::table::{LeafBits, LockedTable, Reuse};
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
    /// A sweep has left a frame there until it has flushed, which lasts long: wait for the end of its call.
    WaitForZap,
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
    /// Give the leaf of private memory these rights, to write too: with its frame, if that is exclusive or
    /// can become so; else with a copy. The lock decides.
    AllowWrite(Rights),
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
        Entry::Marker(Marker::Unknown | Marker::Reserved | Marker::Lost) => Decision::Refuse,
        Entry::Marker(Marker::PendingFree(_)) if mutant!("fault.pending-trusted") => Decision::MapFrame,
        Entry::Marker(Marker::PendingFree(_)) => Decision::WaitForZap,
        Entry::Marker(Marker::Busy) | Entry::Table(_) => Decision::Wait,
        Entry::Leaf(leaf) => decide_present(leaf, inputs),
    }
}

/// Decides how to change an entry whose page is to be pinned, which it does not allow as it is: private
/// memory gets a frame that is *exclusive*, whatever the access.
pub fn decide_unshare(entry: Entry, inputs: FaultInputs) -> Decision {
    match entry {
        Entry::Absent if inputs.private_anonymous => Decision::MapFrame,
        Entry::Leaf(leaf) if leaf.pfn == inputs.zero => Decision::ReplaceZeroPage,
        Entry::Leaf(leaf) if !leaf.owned() => Decision::Refuse,
        Entry::Leaf(_) if inputs.private_anonymous => Decision::AllowWrite(inputs.rights),
        entry => decide(entry, inputs),
    }
}

fn decide_present(leaf: Leaf, inputs: FaultInputs) -> Decision {
    if leaf.rights.contains(inputs.access.needs()) {
        Decision::Nothing
    } else if inputs.private_anonymous && !leaf.owned() && leaf.pfn != inputs.zero {
        // Frames of others in memory of its own: no record says whether they may be written.
        Decision::Refuse
    } else if leaf.pfn != inputs.zero {
        let copies = inputs.private_anonymous && inputs.access == Access::Write;
        if copies { Decision::AllowWrite(inputs.rights) } else { Decision::Allow(inputs.rights) }
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
    ///
    /// # Errors
    /// A frame has to be copied, and none is prepared for that; the next attempt prepares one.
    #[inline(always)]
    pub fn apply(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        match decision {
            Decision::MapFrame => {
                if let Some(frame) = prepared.take_frame(self.space.node.birth(self.page)) {
                    self.table.install(self.slot, frame, self.bits(self.rights));
                }
            }
            Decision::MapZeroPage => self.table.install_zero(self.slot, self.bits(self.rights)),
            rarer => return self.apply_rarer(rarer, prepared),
        }
        Ok(())
    }

    /// The rarer decisions. By value, so that `self` lies in memory only here.
    #[inline(never)]
    fn apply_rarer(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        match decision {
            Decision::Nothing | Decision::Wait | Decision::WaitForZap | Decision::Refuse => {}
            Decision::MapFrame | Decision::MapZeroPage => {}
            Decision::MapBacking => {
                if let Some(frame) = prepared.take_backing() {
                    self.table.install(self.slot, frame, self.bits(self.rights));
                }
            }
            Decision::ReplaceZeroPage => self.replace_zero_page(prepared),
            Decision::Allow(rights) => self.allow(rights),
            Decision::AllowWrite(rights) => return self.allow_write(rights, prepared),
        }
        Ok(())
    }

    /// Decides whether a write takes a copy: only the holder of the table's lock makes the frame of an entry
    /// exclusive, or shares it by another entry.
    fn allow_write(&mut self, rights: Rights, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        let is_allowed = if self.access == Access::Write {
            let reuse = self.table.allow_store(self.slot, rights);
            if reuse == Some(Reuse::BecameExclusive) {
                self.space.vm.count(Counter::PgReuse);
            }
            reuse.is_some()
        } else {
            self.unshare_in_place(rights)
        };
        if is_allowed {
            return Ok(());
        }
        if !prepared.has_copy() {
            return Err(Fallback::CowUnprepared);
        }
        self.copy(prepared);
        Ok(())
    }

    /// Makes the frame exclusive for a pin to read, if nobody else has it, and gives the leaf the rights.
    /// `false`, and no change, where the pin has to copy.
    #[cold]
    #[inline(never)]
    fn unshare_in_place(&mut self, rights: Rights) -> bool {
        let was_exclusive = self.table.is_exclusive(self.slot);
        if !was_exclusive {
            if !self.table.try_make_exclusive(self.slot) {
                return false;
            }
            self.space.vm.count(Counter::PgReuse);
        }
        self.allow(rights);
        true
    }

    /// The bits of the leaf. The access is tried again at once: its bits are set now, which spares the
    /// hardware's walker a locked write.
    #[inline(always)]
    fn bits(&self, rights: Rights) -> LeafBits {
        LeafBits::new(rights).used(self.access == Access::Write)
    }

    /// P9: the frame of a present entry changes through non-present and a flush, else one CPU would go on
    /// reading zeros after another has written. The table's lock is held during the flush. That cannot
    /// deadlock: a CPU that waits for the lock answers flushes.
    fn replace_zero_page(&mut self, prepared: &mut Prepared<'v, M>) {
        let Some(frame) = prepared.take_frame(self.space.node.birth(self.page)) else { return };
        if !self.table.mark(self.slot, Marker::Busy) {
            return;
        }
        if !mutant!("fault.zero-page-not-flushed") {
            self.space.flush_page(&self.table, self.page);
        }
        self.table.install(self.slot, frame, self.bits(self.rights));
        self.space.vm.count(Counter::ZeroPageReplaced);
    }

    /// P9, as [`replace_zero_page`](Self::replace_zero_page). The flush comes before the copy, so no CPU
    /// writes to the frame meanwhile, whatever flushes of the space are pending (P8). The mapping of the old
    /// frame is taken back after both: until then nobody else finds it exclusive.
    fn copy(&mut self, prepared: &mut Prepared<'v, M>) {
        let Some(mut copy) = prepared.take_copy() else { return };
        let Some(old) = self.table.replace_by_busy(self.slot, self.page) else { return };
        old.put_after(self.space.vm.memory(), |mapped| {
            if !mutant!("cow.flush-skipped") {
                self.space.flush_page(&self.table, self.page);
            }
            copy.copy_from(mapped.user_frame());
        });
        let page = if mutant!("rmap.copy-born-elsewhere") { self.page.add(1) } else { self.page };
        let birth = self.space.node.birth(page);
        self.table.install(self.slot, copy.into_mapped_at(birth), self.bits(self.rights));
        self.space.vm.count(Counter::CowCopied);
    }

    /// Gives the leaf more rights, with the same frame: one of shared memory for a store, or any for a load.
    /// Other CPUs need no flush: one whose TLB has fewer faults, and finds them here.
    ///
    /// A load gives no right to write to a page that a fork has swept: a pinned frame there is exclusive, and
    /// will be copied for the child.
    fn allow(&mut self, mut rights: Rights) {
        let store = self.access == Access::Write;
        if !store && self.space.fork.is_behind(self.page) && !mutant!("fork.pinned-writable-again") {
            rights -= Rights::WRITE;
        }
        let kept = |leaf: Leaf| leaf.dirty && !mutant!("fault.dirty-dropped");
        let now = |leaf| LeafBits { rights, ..LeafBits::of(leaf).used(kept(leaf) || store) };
        self.table.adjust_as_given(self.slot, |leaf| Some(now(leaf)));
    }
}
