//! fork of huge leaves, each as a whole: of the huge zero page, and of blocks, which both spaces map then.
//!
//! ```text
//!   parent's table   lock ─ leaf? ─ block: a leaf more, no right to write ─ cursor ─ unlock
//!   child            zero page: a reference ─────────────────────► upper tables ─► lock ─ leaf ─ unlock
//! ```
//!
//! Once the cursor has passed the leaf, no store replaces it or makes it writable until the fork has ended,
//! so the child has what the parent had. What the parent's leaf keeps, the page or the block, is there when
//! the child maps it: no table of the one space is locked with one of the other.

use crate::frame::NotMappedAgain;
use crate::machine::{Leaf, Machine};
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::{AddressSpace, Counter, Error};
use crate::table::{HugeZero, LeafBits, SharedHuge};
use crate::tlb::Gather;
use crate::units::{Level, Order, Vpn, VpnRange};
use crate::vma::pages_of;

/// What a fork has met at the entry of a huge page.
enum Met<'m, M: Machine> {
    /// No huge leaf, or one that has to be split.
    Other,
    /// The huge zero page.
    Zero(Leaf),
    /// A block, of which the child has a mapping.
    Block(SharedHuge<'m, M>),
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Shares the huge leaf with the child, which only the caller knows, if there is one where the range
    /// begins, and lies in it. Returns where the pages end then, and how many have frames. A leaf that the
    /// range cuts, and one whose block somebody has a reference to, is split by the caller.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn share_huge(
        &self,
        range: VpnRange,
        fork: &ForkUnderWay<'_, M::Cpu>,
        child: &Self,
        gather: &mut Gather<'_, 'v, M>,
    ) -> Result<Option<(Vpn, u64)>, Error> {
        let pages = pages_of(Order::HUGE, range.start);
        if !self.may_have_huge_leaves() || !range.covers(pages) {
            return Ok(None);
        }
        match self.pass_huge(pages, fork)? {
            Met::Other => Ok(None),
            Met::Zero(leaf) => {
                child.map_huge_zero_of(pages.start, leaf)?;
                Ok(Some((pages.end, 0)))
            }
            Met::Block(shared) => {
                if shared.was_writable && !mutant!("thp.fork-flush-skipped") {
                    gather.weakened_leaf(pages);
                }
                child.map_shared_block(pages.start, shared)?;
                Ok(Some((pages.end, pages.len())))
            }
        }
    }

    /// Takes from the leaf that maps the pages what the child gets. The cursor is behind it then.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: it is mapped too often.
    #[cold]
    #[inline(never)]
    fn pass_huge(&self, pages: VpnRange, fork: &ForkUnderWay<'_, M::Cpu>) -> Result<Met<'_, M>, Error> {
        let reading = self.vm.rcu.read();
        let found = self.huge_entry(pages.start, &reading).map(|found| (found.slot, found.table.lock()));
        drop(reading);
        let Some((slot, Some(mut table))) = found else { return Ok(Met::Other) };
        let met = if let Some(leaf) = table.huge_zero_leaf(slot) {
            Met::Zero(leaf)
        } else {
            match table.share_huge(slot) {
                Ok(Some(shared)) => Met::Block(shared),
                Ok(None) | Err(NotMappedAgain::Referenced) => return Ok(Met::Other),
                Err(NotMappedAgain::TooManyMappings) => return Err(Error::NoMemory),
            }
        };
        let is_passed = match met {
            Met::Zero(_) => !mutant!("zero.fork-cursor-not-advanced"),
            _ => !mutant!("thp.fork-cursor-not-advanced"),
        };
        if is_passed {
            fork.advance(pages.end);
        }
        Ok(met)
    }

    /// Maps, from `page` on, the huge zero page that a leaf of the parent maps. Nobody but the caller knows
    /// the space.
    fn map_huge_zero_of(&self, page: Vpn, leaf: Leaf) -> Result<(), Error> {
        let zero = HugeZero::of(leaf);
        self.table.share_huge_zero(zero).map_err(|_| Error::NoMemory)?;
        self.fill_above(page, Level::Pmd, |above, slot| {
            above.install_huge_zero(slot, zero, LeafBits::of(leaf));
            Ok(())
        })
    }

    /// Maps the parent's block from `page` on. Nobody but the caller knows the space. Dropped where there
    /// is no memory for a table: no CPU has used this mapping of it.
    fn map_shared_block(&self, page: Vpn, shared: SharedHuge<'_, M>) -> Result<(), Error> {
        self.note_huge_leaves();
        self.fill_above(page, Level::Pmd, |above, slot| {
            above.install_huge(slot, shared.folio, shared.bits);
            Ok(())
        })?;
        self.vm.count(Counter::NrAnonTransparentHugepages);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/fork_huge.rs"]
mod tests;
