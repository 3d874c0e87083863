//! Faults and the sizes between a base page and a huge page: a block of frames for a write to a page whose
//! entry is absent, as are those of its neighbours.
//!
//! ```text
//!   entry absent, a write, no frame prepared
//!     policy, mapping, neighbours' entries ─► a base page
//!        │ orders
//!        ├─ none was free (anon_fault_fallback of each): a base page
//!        ├─ nothing prepared: give up with HugeUnprepared ─► outside of the read section: allocate, zero
//!        └─ prepared: lock the table ─► attached? all entries absent? mapping valid, all in it? ─► install
//! ```
//!
//! What is installed is what so many faults of base pages would have, one after the other, under one lock:
//! each frame has a record of its own and is *exclusive*, each entry is a leaf of a base page. A space whose
//! machine has such sizes allocates no frame early (`ForkCursor::allocates_late`); so where they are off, no
//! attempt asks that has a frame.

use super::Fallback;
use super::attempt::{FaultContext, Proof};
use super::prepare::Prepared;
use crate::machine::{Entry, Machine};
use crate::space::counters::Counter;
use crate::table::{EntryRef, LeafBits, LockedTable};
use crate::units::Order;
use crate::vma::{OrderSet, Vma, orders_of_fault, pages_of};

impl<'s, 'v, M: Machine, P: Proof<M>> FaultContext<'_, 's, 'v, M, P> {
    /// Installs a block of frames around the page, whose `entry` is absent, if a size between is wanted
    /// there. `false` for a base page. By value, so that the context and the entry lie in memory only here: a
    /// reference costs every fault 45 instructions.
    ///
    /// # Errors
    /// Why it gave up; [`Fallback::HugeUnprepared`] where a block is to be prepared before the next attempt.
    #[cold]
    #[inline(never)]
    pub(super) fn install_block(
        self,
        entry: EntryRef<'_, 's, M>,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<bool, Fallback> {
        let Self { space, vma, page, .. } = self;
        let orders = self.orders_around(&entry, self.orders_to_try(vma));
        if orders.is_empty() {
            return Ok(false);
        }
        let Some(order) = prepared.has_block(orders)? else { return Ok(false) };
        let (mut table, vma) = self.lock_block(&entry, order)?;
        let start = pages_of(order, page).start;
        if space.fork.is_behind(start) && !mutant!("sizes.fork-ignored") {
            return Err(Fallback::Forking);
        }
        self.note_copy(vma)?;
        let Some(folio) = prepared.take_block() else { return Err(Fallback::EntryBusy) };
        // In all of them, as Linux does: no walker has to write a leaf.
        let bits = LeafBits::new(vma.rights()).used(true);
        let first = LockedTable::<M>::first_slot_of(entry.slot, order);
        table.install_parts(first, folio.into_parts_at(space.node.birth(start)), bits);
        if let Some(counter) = Counter::anon_fault_alloc(order) {
            space.vm.count(counter);
        }
        Ok(true)
    }

    fn orders_to_try(&self, vma: &Vma<M::Cpu>) -> OrderSet {
        let (space, vm) = (self.space, self.space.vm);
        orders_of_fault(vm.huge_sizes, vm.huge_policy, space.huge_refusal(), vma, self.page)
    }

    /// Those of the orders whose entries are all absent now. A block holds those of each smaller order.
    fn orders_around(&self, entry: &EntryRef<'_, 's, M>, mut orders: OrderSet) -> OrderSet {
        let is_absent = |slot| entry.table.entry(slot) == Entry::Absent;
        while let Some(order) = orders.largest() {
            let first = LockedTable::<M>::first_slot_of(entry.slot, order);
            if (first..first + order.frames() as usize).all(is_absent) {
                break;
            }
            orders = orders.without(order);
        }
        orders
    }

    /// Locks the table of entries that are to become the leaves of a block, and asks the questions of an
    /// installation, of all of them. Returns the mapping that is valid now.
    fn lock_block(
        &self,
        entry: &EntryRef<'_, 's, M>,
        order: Order,
    ) -> Result<(LockedTable<'s, M>, &Vma<M::Cpu>), Fallback> {
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        let first = LockedTable::<M>::first_slot_of(entry.slot, order);
        if !table.are_absent(first, order.frames() as usize) && !mutant!("sizes.entries-not-rechecked") {
            return Err(Fallback::EntryBusy);
        }
        let vma = self.confirm()?;
        // The mapping that is valid now may be another one, which says the same of the one page.
        let is_same = core::ptr::eq(vma, self.vma);
        let still_fits = || self.orders_to_try(vma).contains(order);
        if !is_same && !still_fits() && !mutant!("sizes.range-not-rechecked") {
            return Err(Fallback::VmaChanged);
        }
        Ok((table, vma))
    }
}
