//! Splitting huge leaves where a writer's range ends: the tables for it are put aside before the writer
//! publishes, so that what was published never lacks memory.
//!
//! ```text
//!   tables for both ends ─► publish ─► split at both ends ─► edit whole leaves ─► flush
//!        may fail                       a flush for each, the table locked
//! ```
//!
//! Writers exclude each other, so tables that a writer finds before its publication are there afterwards.
//! A fault may turn an absent entry into a huge leaf meanwhile. So tables are put aside also for an end in
//! the middle of an entry that is absent; and after the publication, when no fault installs anything for
//! the old mapping, the entry is looked at once more, under its table's lock (docs/design/huge-pages.md).
//!
//! # Callers that lock to read
//!
//! MADV_DONTNEED and MADV_FREE change no mapping, so faults install huge leaves beside them. They split
//! what they find at the ends ([`Split::ends_shared`]), and leave alone a
//! huge leaf that reaches beyond the range later: its pages were absent when the call looked at the end of
//! the range, so the fault comes after it.

use super::RangeToken;
use super::entries::Entries;
use crate::frame::TableFrame;
use crate::machine::{Entry, Machine};
use crate::space::{Counter, Error};
use crate::table::{AtCut, LockedTable, SplitLeaf, level_to_split, split_at, tables_to_split, walk};
use crate::units::{Level, Order, PageSize, Vpn, VpnRange};
use crate::vma::pages_of;

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

/// Splitting the huge leaves of a space.
pub(in crate::space) struct Split<'a, 'v, M: Machine> {
    entries: &'a Entries<'v, M>,
}

impl<M: Machine> Clone for Split<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Split<'_, '_, M> {}

impl<'a, 'v, M: Machine> Split<'a, 'v, M> {
    /// Of these entries.
    #[inline(always)]
    pub fn new(entries: &'a Entries<'v, M>) -> Self {
        Self { entries }
    }

    /// Tables for the leaves that the range cuts at its ends; `None` where the space has no huge leaf.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    #[inline]
    pub fn reserve(
        self,
        token: RangeToken<'_>,
        range: VpnRange,
    ) -> Result<Option<SplitReserve<'v, M>>, Error> {
        if !self.entries.may_have_huge_leaves() {
            return Ok(None);
        }
        self.reserve_both_ends(token, range).map(Some)
    }

    #[cold]
    fn reserve_both_ends(self, token: RangeToken<'_>, range: VpnRange) -> Result<SplitReserve<'v, M>, Error> {
        token.assert_covers(self.entries.id(), range);
        Ok(SplitReserve { start: self.reserve_end(range.start)?, end: self.reserve_end(range.end)? })
    }

    /// Puts tables aside for another end of the range.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: the reserve is for the former end.
    pub fn move_end(self, reserve: Option<&mut SplitReserve<'v, M>>, end: Vpn) -> Result<(), Error> {
        if let Some(reserve) = reserve {
            reserve.end = self.reserve_end(end)?;
        }
        Ok(())
    }

    fn reserve_end(self, page: Vpn) -> Result<EndReserve<'v, M>, Error> {
        let mut reserve = EndReserve::EMPTY;
        let nr = level_to_split(&self.entries.table, page).map_or(0, |level| tables_to_split(level, page));
        for table in reserve.0.iter_mut().take(nr) {
            *table = Some(self.entries.alloc_table()?);
        }
        Ok(reserve)
    }

    /// Splits the leaves that the range cuts at its ends.
    #[inline(always)]
    pub fn ends(self, token: RangeToken<'_>, range: VpnRange, reserve: Option<SplitReserve<'v, M>>) {
        if let Some(reserve) = reserve {
            token.assert_covers(self.entries.id(), range);
            self.end(range.start, reserve.start);
            if !mutant!("split.end-left-whole") {
                self.end(range.end, reserve.end);
            }
        }
    }

    #[cold]
    fn end(self, page: Vpn, EndReserve(mut tables): EndReserve<'v, M>) {
        let next = || tables.iter_mut().find_map(Option::take);
        let has_split = split_at(&self.entries.table, page, next, |table, slot, pages, frame| {
            self.one(table, slot, pages, frame);
        });
        debug_assert!(has_split, "no table was put aside for a split at {page:?}");
    }

    /// Splits the leaves that the range cuts at its ends, for a caller that locks it to read.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; leaves may have been split.
    #[inline]
    pub fn ends_shared(self, token: RangeToken<'_>, range: VpnRange) -> Result<(), Error> {
        if !self.entries.may_have_huge_leaves() {
            return Ok(());
        }
        token.assert_covers(self.entries.id(), range);
        [range.start, range.end].into_iter().try_for_each(|end| self.end_shared(end))
    }

    /// As [`ends_shared`](Self::ends_shared), but leaves the huge zero page whole. What replaces
    /// it comes after the call.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; leaves may have been split.
    #[inline]
    pub fn owned_ends_shared(self, token: RangeToken<'_>, range: VpnRange) -> Result<(), Error> {
        if !self.entries.may_have_huge_leaves() {
            return Ok(());
        }
        token.assert_covers(self.entries.id(), range);
        let mut ends = [range.start, range.end].into_iter();
        ends.try_for_each(|end| if self.is_huge_zero_at(end) { Ok(()) } else { self.end_shared(end) })
    }

    /// Whether the huge zero page maps the page; stale at once.
    #[cold]
    fn is_huge_zero_at(self, page: Vpn) -> bool {
        let reading = self.entries.vm.rcu.read();
        let found = walk(&self.entries.table, page, Level::Pte, &reading);
        let is_zero = |leaf| self.entries.table.is_huge_zero(leaf, found.table.level());
        matches!(found.entry(), Entry::Leaf(leaf) if is_zero(leaf)) && !mutant!("madvise.free-splits-zeros")
    }

    #[cold]
    fn end_shared(self, page: Vpn) -> Result<(), Error> {
        let mut table = None;
        loop {
            let has_split = split_at(
                &self.entries.table,
                page,
                || table.take(),
                |table, slot, pages, frame| {
                    self.one(table, slot, pages, frame);
                },
            );
            if has_split {
                return Ok(());
            }
            table = Some(self.entries.alloc_table()?);
        }
    }

    /// Splits the huge leaf in `slot`, which maps `page`, with the table that a fault has prepared.
    pub fn prepared(
        self,
        table: &mut LockedTable<'_, M>,
        slot: usize,
        page: Vpn,
        frame: Option<TableFrame<'v, M>>,
    ) {
        if frame.is_some() {
            self.one(table, slot, pages_of(order_of(table), page), frame);
        }
    }

    /// Splits the huge page that holds `page`, if there is one.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    #[cold]
    #[inline(never)]
    pub fn at(self, page: Vpn) -> Result<(), Error> {
        let (entries, vm) = (self.entries, self.entries.vm);
        let reading = vm.rcu.read();
        let is_huge = entries.huge_entry(page, &reading).is_some();
        drop(reading);
        if !is_huge {
            return Ok(());
        }
        let frame = entries.alloc_table()?;
        let reading = vm.rcu.read();
        let found =
            entries.huge_entry(page, &reading).and_then(|found| Some((found.slot, found.table.lock()?)));
        drop(reading);
        if let Some((slot, mut table)) = found
            && table.leaf(slot).is_some()
        {
            let pages = pages_of(order_of(&table), page);
            self.one(&mut table, slot, pages, Some(frame));
        }
        Ok(())
    }

    /// Splits the leaf in `slot`, which maps `pages`, and counts that. One of an object's folio is cleared; a
    /// table takes its place then if there is one.
    fn one(
        self,
        table: &mut LockedTable<'_, M>,
        slot: usize,
        pages: VpnRange,
        frame: Option<TableFrame<'v, M>>,
    ) {
        let vm = self.entries.vm;
        let class = table.leaf(slot).map(|(_, class)| class);
        let told = table.flush_of(slot, pages).tells_named_if(mutant!("split.flush-tells-one-page"));
        let flush = || vm.shootdown.flush(vm.machine, &self.entries.tlb, told);
        let split = frame.map(|frame| table.split_leaf(slot, frame, flush));
        let Some(Ok(SplitLeaf { last: leaf, has_split_folio })) = split else {
            return self.drop_object_leaf(table, slot, pages, split.and_then(Result::err));
        };
        vm.counters.count_each([Counter::TlbFlush, Counter::TableAlloc]);
        if leaf.owned() {
            vm.count(Counter::ThpSplitPmd);
            if has_split_folio {
                vm.count(Counter::ThpSplitPage);
            }
            class.into_iter().for_each(|class| vm.count_leaf_gone(class, order_of(table)));
        } else if self.entries.table.is_huge_zero(leaf, table.level()) {
            vm.count(Counter::ThpSplitPmd);
        }
    }

    /// Clears the leaf of an object's folio in `slot`, and links the table there, if there is one. (Linux:
    /// `__split_huge_pmd` of memory that is not anonymous.)
    #[cold]
    #[inline(never)]
    fn drop_object_leaf(
        self,
        table: &mut LockedTable<'_, M>,
        slot: usize,
        pages: VpnRange,
        frame: Option<TableFrame<'v, M>>,
    ) {
        let vm = self.entries.vm;
        let told = table.flush_of(slot, pages);
        let told = told.tells_named_if(mutant!("shared-thp.flush-tells-one-page"));
        let class = table.leaf(slot).map(|(_, class)| class).filter(|class| class.at_cut() == AtCut::Clear);
        let Some(class) = class else { return };
        let flush = || {
            if !mutant!("shared-thp.flush-skipped") {
                vm.shootdown.flush(vm.machine, &self.entries.tlb, told);
            }
        };
        if !table.clear_leaf_now(slot, flush) {
            return;
        }
        vm.counters.count_each([Counter::TlbFlush, Counter::ThpSplitPmd]);
        vm.count_leaf_gone(class, order_of(table));
        if frame.is_some_and(|frame| table.link(slot, frame).is_ok()) {
            vm.count(Counter::TableAlloc);
        }
    }
}

/// The order of the folios that leaves of a table map.
fn order_of<M: Machine>(table: &LockedTable<'_, M>) -> Order {
    table.level().leaf_size().map_or(Order::BASE, PageSize::order)
}
