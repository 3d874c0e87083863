//! The owner of a hugetlb reservation unmaps a page from the children that share it. (Linux:
//! `unmap_ref_private`.)
//!
//! ```text
//!   the owner's store: HugetlbEmpty ─► unmap ─► each other space that maps the page, by the reverse map:
//!   the store again: in place                   lock its table ─ poison ─ flush ─ put the mapping ─ unlock
//! ```
//!
//! A space that has set a page aside is not to lack it because of a child. Its store to a page that children
//! share takes a copy, for which nothing is set aside any more; where the pool has none, the children lose
//! the page, and their next access to it is a bus error. Only the first of the spaces has pages set aside:
//! its children's mappings say so ([`HugetlbBacking::reserves`](crate::vma::HugetlbBacking)).
//!
//! Spaces are found by whatever the embedder keeps them by, and a space that is found may have to be ended.
//! So no fault does this by itself: its caller does, with no lock held.

use crate::frame::{FrameRef, HugetlbTake, OwnerUnmap};
use crate::machine::{Entry, Machine};
use crate::space::edit::Mappings;
use crate::space::edit::entries::Entries;
use crate::space::rmap::Visited;
use crate::space::{AddressSpace, RmapError, SpaceId, Spaces};
use crate::table::{LockedTable, Poison, SlotMarker, walk};
use crate::units::{PageSize, VirtAddr, Vpn, VpnRange};
use crate::vma::pages_of;
use core::ops::{ControlFlow, Deref};

/// What is to be done for a page whose store has found the pool empty.
enum PageToUnmap<'v, M: Machine> {
    /// Nothing; and whether another try may find a page.
    Nothing(bool),
    /// It is to be unmapped from others.
    Shared(OwnerUnmap<'v, M>, FrameRef<'v, M>, PageSize),
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Unmaps the huge page that holds `addr`, which this space shares with children, from these, where a
    /// huge page was set aside for it. Called where a store, or a pin, has found the pool empty
    /// ([`FaultError::HugetlbEmpty`](crate::space::FaultError::HugetlbEmpty)). Returns whether it is to be
    /// tried again; `false` where the error stands: nothing was set aside for the page, or a caller keeps a
    /// reference to it, which no child could give up. Each `true` has its reason: a child has lost the page,
    /// or another call was beside this one. Spaces are found by `hold`, as by
    /// [`Vm::rmap_walk`](crate::space::Vm::rmap_walk). (Linux: `unmap_ref_private`, which stores in place
    /// beside a reference.)
    ///
    /// A child that has lost its page gets the error at its next access there.
    ///
    /// `hold` is called with nothing held, and what it returns is asked for its space once.
    ///
    /// Called with no lock held and outside any read section, by a caller that may have to end a space. Locks
    /// the page to read, then one table of a child at a time, with a flush under that; may wait for readers.
    /// Where a fork shares the page again meanwhile, another try finds the pool empty again.
    ///
    /// # Errors
    /// A space that may have the page is not found.
    pub fn unmap_hugetlb_sharers<S>(
        &self,
        addr: VirtAddr,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<bool, RmapError>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        // Dropped in the order from the last to the first.
        let owner = ReservationOwner { mappings: &self.mappings, entries: &self.entries };
        let (unmap, frame, size) = match owner.page(addr.vpn()) {
            PageToUnmap::Nothing(is_worth_a_try) => return Ok(is_worth_a_try),
            PageToUnmap::Shared(unmap, frame, size) => (unmap, frame, size),
        };
        if unmap.is_kept_by_others(&frame) {
            // Walkers without a lock have their references in read sections.
            self.vm.synchronize();
            if unmap.is_kept_by_others(&frame) {
                return Ok(false);
            }
        }
        let found = self.vm.rmap_edit(&frame, hold, |entry, mut table, slot| {
            let victim = entry.space();
            if victim.id() == self.id() {
                return ControlFlow::Continue(Visited::Stays);
            }
            let pages = pages_of(size.order(), entry.page());
            let told = table.flush_of(slot, pages).tells_named_if(mutant!("pool.flush-tells-one-page"));
            let flush = |table: &LockedTable<'_, M>| {
                if !mutant!("pool.taken-before-flush") {
                    victim.entries.flush_entry(table, told);
                }
            };
            let is_poisoned = if mutant!("pool.lost-page-absent") {
                table.clear_leaf_now(slot, || ())
            } else {
                table.replace_by_marker(slot, SlotMarker::Poisoned(Poison::HugetlbUnmapped), flush)
            };
            ControlFlow::Continue(if is_poisoned { Visited::Gone } else { Visited::Stays })
        });
        match found {
            // Something is beside the walk: the next try finds out.
            Ok(_) | Err(RmapError::Unsettled) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// A space, as the one that had pages of the pool set aside.
struct ReservationOwner<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<'v, M: Machine> ReservationOwner<'_, 'v, M> {
    /// What is to be done for the page.
    fn page(&self, page: Vpn) -> PageToUnmap<'v, M> {
        let vm = self.entries.vm;
        let guard = self.mappings.read(VpnRange::new(page, page.add(1)));
        let reading = vm.rcu.read();
        let vma = self.mappings.vmas.find(&reading, page);
        let pool = vma.and_then(|vma| vma.attributes().private_hugetlb());
        drop(reading);
        let is_owner = pool.is_some_and(|pool| pool.reserves || mutant!("pool.taken-by-a-child"));
        let Some(pool) = pool.filter(|_| is_owner) else { return PageToUnmap::Nothing(false) };
        let unmap = OwnerUnmap::begin(&vm.memory, pool.size);
        let shared = unmap.and_then(|unmap| Some((unmap, self.entries.shared_hugetlb_page(page)?)));
        drop(guard);
        match shared {
            Some((unmap, frame)) => PageToUnmap::Shared(unmap, frame, pool.size),
            None => PageToUnmap::Nothing(self.may_get(page, pool.size)),
        }
    }

    /// Whether a store to a page that is not shared may find one: a page is there, or the pool has one for
    /// it.
    fn may_get(&self, page: Vpn, size: PageSize) -> bool {
        let vm = self.entries.vm;
        let reading = vm.rcu.read();
        let found = walk(&self.entries.table, page, size.level(), &reading);
        let entry = found.table.lock().map(|table| table.entry(found.slot));
        match entry {
            Some(entry) if entry == SlotMarker::HugetlbReserved.entry() => {
                vm.memory.hugetlb().may_take(size, HugetlbTake::Reserved)
            }
            Some(Entry::Absent) => vm.memory.hugetlb().may_take(size, HugetlbTake::Available),
            _ => true,
        }
    }
}

impl<'v, M: Machine> Spaces<'v, M> {
    /// As [`AddressSpace::unmap_hugetlb_sharers`], from spaces that were put in here; one that was not is
    /// missing.
    ///
    /// # Errors
    /// As of that.
    pub fn unmap_hugetlb_sharers(
        &self,
        space: &AddressSpace<'v, M>,
        addr: VirtAddr,
    ) -> Result<bool, RmapError> {
        space.unmap_hugetlb_sharers(addr, |id| self.hold(id))
    }
}
