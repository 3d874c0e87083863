//! The virtual huge zero page: a table of zeros, which the hardware walks into and software takes for a leaf.
//!
//! ```text
//!   a slot of any space ──┐
//!   a slot of any space ──┼─► the table: 512 x the zero page, never to write, marked as accessed
//!   a slot of any space ──┘
//! ```
//!
//! A table here has one parent, under whose lock it is detached, and one region of one space. This one has
//! many of both, so it is none of them: it is filled before another CPU knows it, placed by one
//! compare-exchange, and from then on not written, locked or freed. Hardware neither: it writes an entry
//! only to set a bit that is clear.
//!
//! The entry that shows it is a [`Leaf`](crate::machine::Leaf) *by table*, so walks end there, and everything
//! that treats a leaf of the huge zero page treats it. What differs is what a TLB holds: 512 small
//! translations and a pointer, all of which a flush names.

use super::content::ZeroLeaf;
use super::split::fill;
use super::{LeafBits, PageTable, UnlinkedTable};
use crate::frame::{NoHugeZero, Priority, Taken};
use crate::machine::Machine;
use crate::units::{Level, Pfn, Rights};

impl<M: Machine> PageTable<'_, M> {
    /// The table of zeros to show from this CPU. Where there is none, one is allocated as `alloc` says;
    /// `None`: not at all, and this waits for nothing.
    ///
    /// # Errors
    /// There is none, and no memory for one.
    #[cold]
    #[inline(never)]
    pub(super) fn take_zero_table(&self, alloc: Option<Priority>) -> Result<(Pfn, Taken), NoHugeZero> {
        let memory = self.memory;
        if let Some(pfn) = memory.zero_pages().table() {
            return Ok((pfn, Taken::Shared));
        }
        let frame = memory.alloc_table(alloc.ok_or(NoHugeZero)?).ok_or(NoHugeZero)?;
        let mut table = UnlinkedTable::new(frame);
        // All that a user may do to a page but write it; a slot takes away what its mapping does not allow.
        let bits = LeafBits::new(Rights::READ | Rights::EXECUTE | Rights::USER).used(false);
        let slots = if mutant!("zero.table-half-filled") { Level::ENTRIES / 2 } else { Level::ENTRIES };
        let zero = ZeroLeaf::BASE;
        (0..slots).for_each(|slot| fill(slot, || table.install(slot, zero, bits)));
        match table.give_up(|frame| memory.zero_pages().place_table(frame)) {
            Ok(pfn) => Ok((pfn, Taken::Allocated)),
            // Another CPU was faster; this one is freed.
            Err(_unneeded) => memory.zero_pages().table().map(|pfn| (pfn, Taken::Shared)).ok_or(NoHugeZero),
        }
    }
}
