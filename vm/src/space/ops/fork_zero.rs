//! fork of what maps the huge zero page: the child maps it too, and takes its reference before.
//!
//! ```text
//!   parent's table   lock ─ leaf of it? ─ cursor behind it ─ unlock
//!   child                                                          reference ─► upper tables ─► lock ─ leaf
//! ─ unlock
//! ```
//!
//! Once the cursor has passed the leaf, no store replaces it until the fork has ended, so the child has zeros
//! where the parent had. The parent's reference lasts as long as the parent, so the page is there when the
//! child takes its own: nothing is waited for, and no table of the one space is locked with one of the other.

use crate::machine::{Leaf, Machine};
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::{AddressSpace, Error};
use crate::table::LeafBits;
use crate::units::{Level, Order, Vpn, VpnRange};
use crate::vma::pages_of;

impl<M: Machine> AddressSpace<'_, M> {
    /// Shares the huge zero page with the child, if it is mapped where the range begins, and lies in it.
    /// Returns where the pages end then. A leaf that the range cuts is split by the caller.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn share_huge_zero(
        &self,
        range: VpnRange,
        fork: &ForkUnderWay<'_, M::Cpu>,
        child: &Self,
    ) -> Result<Option<Vpn>, Error> {
        let pages = pages_of(Order::HUGE, range.start);
        if !self.may_have_huge_leaves() || !range.covers(pages) {
            return Ok(None);
        }
        let Some(leaf) = self.pass_huge_zero(pages, fork) else { return Ok(None) };
        child.map_huge_zero_of(pages.start, leaf)?;
        Ok(Some(pages.end))
    }

    /// The leaf of the huge zero page that maps the pages, if one does. The cursor is behind it then.
    #[cold]
    #[inline(never)]
    fn pass_huge_zero(&self, pages: VpnRange, fork: &ForkUnderWay<'_, M::Cpu>) -> Option<Leaf> {
        let reading = self.vm.rcu.read();
        let found = self.huge_entry(pages.start, &reading)?;
        let (slot, table) = (found.slot, found.table.lock()?);
        drop(reading);
        let leaf = table.huge_zero_leaf(slot)?;
        if !mutant!("zero.fork-cursor-not-advanced") {
            fork.advance(pages.end);
        }
        Some(leaf)
    }

    /// Maps, from `page` on, the huge zero page that a leaf of the parent maps. Nobody but the caller knows
    /// the space.
    fn map_huge_zero_of(&self, page: Vpn, leaf: Leaf) -> Result<(), Error> {
        self.table.share_huge_zero(leaf.pfn).map_err(|_| Error::NoMemory)?;
        self.fill_above(page, Level::Pmd, |above, slot| {
            above.install_huge_zero(slot, leaf.pfn, LeafBits::of(leaf));
            Ok(())
        })
    }
}
