//! Locks of ranges, and which mappings and entries their holders may read and write.
//!
//! | call | holds | for |
//! |---|---|---|
//! | [`write`](Mappings::write) | a range, to write | munmap, mprotect, brk, MAP_FIXED, ... |
//! | [`place`](Mappings::place) | the range that it chooses, to write | mmap |
//! | [`write_two`](Mappings::write_two) | two ranges, to write | moving mappings |
//! | [`write_all`](Mappings::write_all) | all of the space, to write | its end; fork |
//! | [`read`](Mappings::read) | a range, to read | locked faults, mincore, MADV_DONTNEED |
//!
//! ```text
//!   mappings    [ prev          ][     ][    ]      [ next ...
//!   range                  |=============|
//!   widened               |===============|           one page more at each end: neighbours to merge with
//! ```
//!
//! The holder of a guard clears and changes entries of its range only, reads mappings that have a page in the
//! widened range, and replaces these by mappings that say the same of every page outside of the range. Debug
//! builds assert that; release builds know no ranges. The right is passed on as [`RangeToken`], which costs
//! nothing.
//!
//! All guards take one lock of the space today, so a guard excludes more than its range. Only the freeing of
//! empty tables in the hole next to a range relies on that: that no *writer* is anywhere.
//!
//! # After a writer has published
//!
//! What is left of its call keeps out other writers only ([`published`](Mappings::published)): locked
//! faults, mincore, MADV_DONTNEED and listings of mappings go on beside it (docs/design/locking.md).

use super::entries::Entries;
use super::mappings::Mappings;
use crate::machine::Machine;
use crate::space::{AddressSpace, SpaceId};
use crate::sync::{RwReadGuard, RwWriteGuard, lockdep};
use crate::tlb::PendingFlush;
use crate::units::{Level, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaState};
use core::fmt;
use core::marker::PhantomData;

/// All pages that a space may ever map.
const ALL: VpnRange = VpnRange { start: Vpn(0), end: Vpn(1 << 52) };

/// One range or two of a space, locked to write: no other writer, no locked fault and no reader of mappings
/// is in them.
#[must_use = "the range is unlocked once this is dropped"]
pub struct RangeGuard<'a, M: Machine> {
    token: RangeToken<'a>,
    lock: RwWriteGuard<'a, M::Cpu, { lockdep::SPACE.0 }>,
}

/// A range whose mappings a writer has replaced, and whose entries it edits now. No other writer is in it, so
/// no page of it is mapped again before the flush has ended (protocol P3); readers may be.
#[must_use = "the range is unlocked once this is dropped"]
pub struct PublishedGuard<'a, M: Machine> {
    token: RangeToken<'a>,
    /// Raised before readers are let in: a fault that is refused because of the new mappings sees it.
    pending: PendingFlush<'a, M::Cpu>,
    /// Of which the writer has published.
    mappings: &'a Mappings<'a, M>,
    _lock: PublishedLock<'a, M>,
}

/// The space's lock after its holder has published.
enum PublishedLock<'a, M: Machine> {
    Alone { _lock: RwWriteGuard<'a, M::Cpu, { lockdep::SPACE.0 }> },
    WithReaders { _lock: RwReadGuard<'a, M::Cpu, { lockdep::SPACE.0 }> },
}

/// Pages from which on editing entries lasts long enough to let readers in, though none waits: what a table
/// of leaves covers. Few where tests are to see both ways; models always let them in.
const LONG_EDIT: u64 = if cfg!(loom) {
    1
} else if cfg!(debug_assertions) {
    2
} else {
    Level::Pte.table_pages()
};

/// A range of a space, locked to read: no writer replaces its mappings.
#[must_use = "the range is unlocked once this is dropped"]
pub struct RangeReadGuard<'a, M: Machine> {
    token: RangeToken<'a>,
    _lock: RwReadGuard<'a, M::Cpu, { lockdep::SPACE.0 }>,
}

/// Proof that a guard exists, and in debug builds which pages it covers. Only guards make it.
#[derive(Clone, Copy, Debug)]
pub struct RangeToken<'g> {
    /// The number of the space, and the locked ranges, in ascending order.
    #[cfg(debug_assertions)]
    locked: (SpaceId, [VpnRange; 2]),
    _guard: PhantomData<&'g ()>,
}

const _: () =
    assert!(cfg!(debug_assertions) || size_of::<RangeToken<'_>>() == 0, "a release build knows no ranges");

impl<M: Machine> AddressSpace<'_, M> {
    /// Locks a range to write. Sleeps while other guards hold it.
    #[inline]
    pub fn write(&self, range: VpnRange) -> RangeGuard<'_, M> {
        self.mappings.write(range)
    }

    /// Locks two ranges to write, as one step. Sleeps while other guards hold a part of them.
    pub fn write_two(&self, one: VpnRange, other: VpnRange) -> RangeGuard<'_, M> {
        self.mappings.write_two(one, other)
    }

    /// Locks the whole space to write.
    pub fn write_all(&self) -> RangeGuard<'_, M> {
        self.mappings.write_all()
    }

    /// Locks a range to read. Sleeps while a writer holds a part of it or waits for it.
    #[inline(always)]
    pub fn read(&self, range: VpnRange) -> RangeReadGuard<'_, M> {
        self.mappings.read(range)
    }

    /// Locks the whole space to read.
    pub fn read_all(&self) -> RangeReadGuard<'_, M> {
        self.mappings.read_all()
    }
}

impl<M: Machine> Mappings<'_, M> {
    /// Locks a range to write. Sleeps while other guards hold it.
    #[inline]
    pub fn write(&self, range: VpnRange) -> RangeGuard<'_, M> {
        RangeGuard { lock: self.lock.ranges.write(), token: RangeToken::new(self.id, [range, range]) }
    }

    /// Locks two ranges to write, as one step. Sleeps while other guards hold a part of them.
    pub fn write_two(&self, one: VpnRange, other: VpnRange) -> RangeGuard<'_, M> {
        let ranges = if one.start <= other.start { [one, other] } else { [other, one] };
        RangeGuard { lock: self.lock.ranges.write(), token: RangeToken::new(self.id, ranges) }
    }

    /// Locks the whole space to write.
    pub fn write_all(&self) -> RangeGuard<'_, M> {
        self.write(ALL)
    }

    /// Locks a range to read. Sleeps while a writer holds a part of it or waits for it.
    #[inline(always)]
    pub fn read(&self, range: VpnRange) -> RangeReadGuard<'_, M> {
        RangeReadGuard { _lock: self.lock.ranges.read(), token: RangeToken::new(self.id, [range, range]) }
    }

    /// Locks the whole space to read.
    pub fn read_all(&self) -> RangeReadGuard<'_, M> {
        self.read(ALL)
    }

    /// Ends the part of a writer that is alone, once it has published: it goes on to edit the entries of
    /// `edited`. Readers are let in if one waits, or if the edit may last.
    #[inline]
    pub fn published<'a>(
        &'a self,
        entries: &'a Entries<'_, M>,
        guard: RangeGuard<'a, M>,
        edited: VpnRange,
    ) -> PublishedGuard<'a, M> {
        let RangeGuard { token, lock } = guard;
        token.assert_covers(self.id, edited);
        let is_late = mutant!("published.pending-too-late");
        let early = if is_late { None } else { Some(entries.tlb.begin_edit()) };
        let _lock = if edited.len() >= LONG_EDIT || lock.is_reader_waiting() {
            let _lock = if mutant!("published.writer-let-in") {
                drop(lock);
                self.lock.ranges.read()
            } else {
                lock.downgrade()
            };
            PublishedLock::WithReaders { _lock }
        } else {
            PublishedLock::Alone { _lock: lock }
        };
        let pending = early.unwrap_or_else(|| entries.tlb.begin_edit());
        PublishedGuard { token, pending, mappings: self, _lock }
    }

    /// Locks a range to read, for a caller that looks at entries: those of each mapping are its own.
    pub fn read_live(&self, entries: &Entries<'_, M>, range: VpnRange) -> RangeReadGuard<'_, M> {
        let guard = self.read(range);
        if !entries.tlb.is_flush_pending() || !self.is_any_busy(range) {
            return guard;
        }
        drop(guard);
        self.read_after_writers(range)
    }

    /// Locks a range to read, for a caller that drops contents: no fork is under way, whose child would have
    /// pages from before that and others from after it, and no collapse, which may have copied them.
    pub fn read_after_fork(&self, entries: &Entries<'_, M>, range: VpnRange) -> RangeReadGuard<'_, M> {
        let guard = self.read(range);
        if !entries.fork.is_under_way() || mutant!("madvise.beside-fork") {
            return guard;
        }
        drop(guard);
        self.read_after_writers(range)
    }

    /// Unlocks the range, for a caller that is about to say that pages are not mapped, or not so: it waits
    /// for the flush of the call that published that, as one that is told so may try to use the pages.
    pub fn unlock_after_flush(
        &self,
        entries: &Entries<'_, M>,
        guard: RangeReadGuard<'_, M>,
        range: VpnRange,
    ) {
        drop(guard);
        if entries.tlb.is_flush_pending() {
            drop(self.read_after_writers(range));
        }
    }

    /// Locks a range to read, once no edit of a writer is under way.
    #[inline(never)]
    pub fn read_after_writers(&self, range: VpnRange) -> RangeReadGuard<'_, M> {
        let RangeGuard { token, lock } = self.write(range);
        RangeReadGuard { token, _lock: lock.downgrade() }
    }
}

impl<M: Machine> RangeGuard<'_, M> {
    /// Proof of the locked pages.
    #[inline(always)]
    pub fn token(&self) -> RangeToken<'_> {
        self.token
    }

    /// The guard of a part of this guard's range.
    #[inline(always)]
    pub(in crate::space) fn narrow(self, range: VpnRange) -> Self {
        let token = self.token.narrow(range);
        Self { token, ..self }
    }
}

impl<'a, M: Machine> PublishedGuard<'a, M> {
    /// Proof of the locked pages.
    #[inline(always)]
    pub fn token(&self) -> RangeToken<'_> {
        self.token
    }

    /// The edit that waits for its flush.
    #[inline(always)]
    pub fn pending(&self) -> &PendingFlush<'a, M::Cpu> {
        &self.pending
    }
}

impl<M: Machine> Drop for PublishedGuard<'_, M> {
    /// Objects lose the pages whose entries are flushed now.
    #[inline(always)]
    fn drop(&mut self) {
        self.mappings.unmap_leaving();
    }
}

impl<M: Machine> RangeReadGuard<'_, M> {
    /// Proof of the locked pages.
    #[inline(always)]
    pub fn token(&self) -> RangeToken<'_> {
        self.token
    }
}

#[cfg(not(debug_assertions))]
impl RangeToken<'_> {
    #[inline(always)]
    fn new(_space: SpaceId, _ranges: [VpnRange; 2]) -> Self {
        Self { _guard: PhantomData }
    }

    #[inline(always)]
    fn narrow(self, _range: VpnRange) -> Self {
        self
    }

    /// Debug builds assert that the entries of `range` may be edited.
    #[inline(always)]
    pub fn assert_covers(self, _space: SpaceId, _range: VpnRange) {}

    /// Debug builds assert that mappings with a page in `range` may be read.
    #[inline(always)]
    pub fn assert_may_read(self, _space: SpaceId, _range: VpnRange) {}

    /// Debug builds assert that `new` may replace `old`.
    #[inline(always)]
    pub fn assert_may_replace(
        self,
        _old: impl FnOnce() -> VmaAttributes,
        _new: &[Option<(VmaAttributes, VmaState)>],
    ) {
    }
}

#[cfg(debug_assertions)]
impl RangeToken<'_> {
    fn new(space: SpaceId, ranges: [VpnRange; 2]) -> Self {
        Self { locked: (space, ranges), _guard: PhantomData }
    }

    fn narrow(self, range: VpnRange) -> Self {
        let (space, ranges) = self.locked;
        assert!(
            ranges.iter().any(|held| held.covers(range)),
            "a guard is narrowed to {range:?}, which it lacks"
        );
        Self { locked: (space, [range, range]), ..self }
    }

    /// Asserts that the entries of `range` may be edited.
    pub fn assert_covers(self, space: SpaceId, range: VpnRange) {
        self.assert_covered(space, range, |held| held);
    }

    /// Asserts that mappings with a page in `range` may be read.
    pub fn assert_may_read(self, space: SpaceId, range: VpnRange) {
        self.assert_covered(space, range, widened);
    }

    fn assert_covered(self, space: SpaceId, range: VpnRange, of: fn(VpnRange) -> VpnRange) {
        let (number, ranges) = self.locked;
        assert_eq!(number, space, "a guard of another space");
        let covered = range.is_empty() || ranges.iter().any(|&held| of(held).covers(range));
        assert!(covered, "{range:?} is touched, but the guard holds {ranges:?}");
    }

    /// Asserts that `new` may replace `old`: it has a page in the widened range, and `new` says the same of
    /// each page of it outside of the held ranges.
    pub fn assert_may_replace(
        self,
        old: impl FnOnce() -> VmaAttributes,
        new: &[Option<(VmaAttributes, VmaState)>],
    ) {
        let (old, (_, ranges)) = (old(), self.locked);
        let touched = ranges.iter().any(|&held| !widened(held).intersect(old.range).is_empty());
        assert!(touched, "{old:?} is replaced, but the guard holds {ranges:?}");
        let starts = [old.range.start, ranges[0].end, ranges[1].end];
        let ends = [ranges[0].start, ranges[1].start, old.range.end];
        for (start, end) in starts.into_iter().zip(ends) {
            let outside = VpnRange::new(start, end.max(start)).intersect(old.range);
            let same = |attributes: &VmaAttributes| {
                attributes.range.covers(outside)
                    && VmaAttributes { anon: old.anon, ..attributes.over(outside) } == old.over(outside)
            };
            let kept = outside.is_empty() || new.iter().flatten().any(|(attributes, _)| same(attributes));
            assert!(kept, "{outside:?} of {old:?} changes, but the guard holds {ranges:?}");
        }
    }
}

/// The range and one page around it.
#[cfg(debug_assertions)]
fn widened(range: VpnRange) -> VpnRange {
    VpnRange::new(Vpn(range.start.0.saturating_sub(1)), range.end.add(1))
}

impl<M: Machine> fmt::Debug for RangeGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "locked to write: {:?}", self.token)
    }
}

impl<M: Machine> fmt::Debug for PublishedGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "published: {:?}", self.token)
    }
}

impl<M: Machine> fmt::Debug for RangeReadGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "locked to read: {:?}", self.token)
    }
}
