//! Splitting huge leaves where a writer's range ends: the tables for it are put aside before the writer
//! publishes, so that what was published never lacks memory.
//!
//! ```text
//!   tables for both ends ─► publish ─► split at both ends ─► edit whole leaves ─► flush
//!        may fail                       a flush for each, the table locked
//! ```
//!
//! Only writers make, split and clear huge leaves, and they exclude each other: what is found before the
//! publication is there afterwards.

use super::{Held, PublishedGuard};
use crate::frame::{Priority, TableFrame};
use crate::machine::Machine;
use crate::space::{AddressSpace, Counter, Error};
use crate::table::{cut_leaf, split_at, tables_to_split};
use crate::units::{Vpn, VpnRange};

/// Tables for the leaves that a range cuts at its ends.
#[derive(Debug)]
pub(in crate::space) struct SplitReserve<'v, M: Machine> {
    start: EndReserve<'v, M>,
    end: EndReserve<'v, M>,
}

/// Tables to split the leaf that a page cuts, of a size for each.
#[derive(Debug)]
struct EndReserve<'v, M: Machine>([Option<TableFrame<'v, M>>; 2]);

impl<M: Machine> EndReserve<'_, M> {
    const EMPTY: Self = Self([const { None }; 2]);
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Tables for the leaves that the range cuts at its ends; `None` where the space has no huge leaf.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    #[inline]
    pub(in crate::space) fn reserve_splits(
        &self,
        held: Held<'_>,
        range: VpnRange,
    ) -> Result<Option<SplitReserve<'v, M>>, Error> {
        if !self.may_have_huge_leaves() {
            return Ok(None);
        }
        self.reserve_both_ends(held, range).map(Some)
    }

    #[cold]
    fn reserve_both_ends(&self, held: Held<'_>, range: VpnRange) -> Result<SplitReserve<'v, M>, Error> {
        held.assert_covers(self, range);
        Ok(SplitReserve { start: self.reserve_end(range.start)?, end: self.reserve_end(range.end)? })
    }

    /// Puts tables aside for another end of the range.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: the reserve is for the former end.
    pub(in crate::space) fn move_end(
        &self,
        reserve: Option<&mut SplitReserve<'v, M>>,
        end: Vpn,
    ) -> Result<(), Error> {
        if let Some(reserve) = reserve {
            reserve.end = self.reserve_end(end)?;
        }
        Ok(())
    }

    fn reserve_end(&self, page: Vpn) -> Result<EndReserve<'v, M>, Error> {
        let mut reserve = EndReserve::EMPTY;
        let nr = cut_leaf(&self.table, page).map_or(0, |level| tables_to_split(level, page));
        for table in reserve.0.iter_mut().take(nr) {
            let alloc = || self.vm.memory.alloc_table(Priority::Normal);
            *table = Some(self.vm.or_reclaim(alloc).ok_or(Error::NoMemory)?);
        }
        Ok(reserve)
    }

    /// Splits the leaves that the range cuts at its ends.
    #[inline]
    pub(in crate::space) fn split_ends(
        &self,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        reserve: Option<SplitReserve<'v, M>>,
    ) {
        if let Some(reserve) = reserve {
            guard.held().assert_covers(self, range);
            self.split_end(range.start, reserve.start);
            if !mutant!("split.end-left-whole") {
                self.split_end(range.end, reserve.end);
            }
        }
    }

    #[cold]
    fn split_end(&self, page: Vpn, EndReserve(mut tables): EndReserve<'v, M>) {
        let next = || tables.iter_mut().find_map(Option::take);
        split_at(&self.table, page, next, |pages| {
            self.vm.count_many(Counter::TlbFlush, 1);
            self.vm.count_many(Counter::TableAlloc, 1);
            self.vm.shootdown.flush(self.vm.machine, &self.tlb, pages);
        });
    }
}
