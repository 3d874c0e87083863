//! How many huge leaves map one folio, and the moment from which its frames are counted one by one.
//!
//! The mapcount in the record of the first frame:
//!
//! | folio | bit 31, *whole* | bit 30, *splitting* | bits 0..29 |
//! |---|---|---|---|
//! | *exclusive* | 0 | 0 | 1: its one leaf |
//! | shared | 1 | 0 | its leaves |
//! | of an object, not split | 1 | 0 | its leaves, also none |
//! | being split | 0 | 1 | its leaves |
//! | split: 512 frames, each with a record | 0 | 0 | entries of the first frame; a huge leaf is one of each |
//!
//! ```text
//!   exclusive ── map_folio_again ──► whole ── begin_folio_split ──► splitting ── end_folio_split ──► split
//!       ▲                            │  ▲ │
//!       ├─ try_make_folio_exclusive ─┘  └─┘ one leaf more, one less: one read-modify-write
//!       └─ rejoin_part, rejoin_first ◄── split, and one leaf maps every frame
//! ```
//!
//! Bit 29 is that of an object's base frame ([`OF_OBJECT`]), which never was a part of a folio.
//!
//! Each leaf lies in a table of another space, so the locks of tables do not order what is done to the count.
//! The flags do: they are in its word. One leaf more or less is a compare-exchange that fails where a split
//! has begun; the split gives each frame the number that it has found, and ends by a release of it. So a
//! leaf is counted in the folio or in each of its frames, and the word says in which. A thread that
//! meets *splitting* waits: for 511 stores of records, with the lock of a table held and so without
//! preemption.
//!
//! All leaves hold one reference together, as the entries of a frame do; after a split those of each frame.
//! Folios of objects, and of the hugetlb pool, which are never split, are counted the same way. An object's
//! folio may have no leaf, and is *whole* then too: so no base entry is ever counted in it before it is
//! split.

use super::{FrameMeta, FrameState, Kind, NotMappedAgain};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::Order;

/// The count of a folio of which the frames have no records.
const WHOLE: u32 = 1 << 31;
/// The records of its frames are being written.
const SPLITTING: u32 = 1 << 30;
/// The count of a base frame of an object that was no part of a folio: it is never *exclusive*, so all that
/// change it use read-modify-writes.
pub(super) const OF_OBJECT: u32 = 1 << 29;
/// The bits of the count.
pub(super) const COUNT: u32 = OF_OBJECT - 1;
/// Mapcounts beyond this are refused, so that none ever reaches the flags. One bit, which no lower one has.
pub(super) const MOST_MAPPINGS: u32 = 1 << 28;

/// What counts the huge leaves of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frame) enum FolioLeaves {
    /// The folio, of which it is the first: the caller hands a reference to all leaves together.
    FirstOfFolio,
    /// The folio.
    Folio,
    /// Each of its frames.
    Frames,
}

/// What the end of a huge leaf leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the last leaf puts the reference of all"]
pub(in crate::frame) enum LeafDropped {
    /// It was the last: the caller puts the reference of all leaves.
    Last,
    /// Others map the folio.
    Others,
    /// Nothing has changed: the folio was split, and the leaf is counted in each of its frames.
    Frames,
}

impl<C: Cpu> FrameMeta<C> {
    /// The word, when no split of the folio is under way. Acquire: after a split, the frames' records.
    fn settled(&self) -> u32 {
        loop {
            let word = self.mapcount.load(Acquire);
            if word & SPLITTING == 0 {
                return word;
            }
            C::relax();
        }
    }

    /// Changes the word of a folio that is *whole*. `None` where it is split, or `next` refuses.
    fn step_whole(&self, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        loop {
            let word = self.settled();
            let new = if word & WHOLE != 0 { next(word)? } else { return None };
            // AcqRel: what was done through other leaves comes before the block is freed, or written.
            if self.mapcount.compare_exchange(word, new, AcqRel, Relaxed).is_ok() {
                return Some(word);
            }
        }
    }

    /// Counts one more huge leaf of user memory, which is not *exclusive* afterwards. The caller holds the
    /// lock of the table of a leaf that maps the folio. [`FolioLeaves::Frames`], and no change, where the
    /// folio was split: the caller counts it in each of the frames.
    ///
    /// # Errors
    /// The count would overflow, or the folio is exclusive and has another reference.
    pub(in crate::frame) fn map_folio_again(&self) -> Result<FolioLeaves, NotMappedAgain> {
        if self.step_shared(FrameState::clear_exclusive).is_some() {
            debug_assert_eq!(self.mapcount.load(Relaxed), 1, "one leaf maps what is exclusive");
            // A plain store: the lock of its one leaf's table is held.
            self.mapcount.store(WHOLE | 2, Relaxed);
            return Ok(FolioLeaves::Folio);
        }
        if self.state().is_exclusive() {
            return Err(NotMappedAgain::Referenced);
        }
        self.add_folio_leaf()
    }

    /// Counts one more huge leaf of a folio that is not exclusive user memory: from no leaf on, the caller
    /// hands a reference of its own to all leaves together. Elsewise as
    /// [`map_folio_again`](Self::map_folio_again).
    ///
    /// # Errors
    /// The count would overflow.
    pub(in crate::frame) fn add_folio_leaf(&self) -> Result<FolioLeaves, NotMappedAgain> {
        let fits = |word| (word & COUNT < MOST_MAPPINGS).then_some(word + 1);
        match self.step_whole(fits) {
            Some(WHOLE) => Ok(FolioLeaves::FirstOfFolio),
            Some(_) => Ok(FolioLeaves::Folio),
            None if self.settled() & WHOLE != 0 => Err(NotMappedAgain::TooManyMappings),
            None => Ok(FolioLeaves::Frames),
        }
    }

    /// Takes one huge leaf back, which is gone, after its flush.
    pub(in crate::frame) fn drop_folio_leaf(&self) -> LeafDropped {
        let is_objects = || self.state().kind() == Kind::Object;
        let less = |word| Some(if word == WHOLE | 1 && !is_objects() { 0 } else { word - 1 });
        match self.step_whole(less) {
            Some(word) if word == WHOLE | 1 => LeafDropped::Last,
            Some(_) => LeafDropped::Others,
            // Released by the thread that split the folio, as the word was.
            None if self.state().order() == Order::BASE => LeafDropped::Frames,
            None => {
                self.remove_only_mapping();
                LeafDropped::Last
            }
        }
    }

    /// Notes that a folio is one of an object, which no leaf maps. The caller alone knows it.
    pub(in crate::frame) fn begin_as_objects(&self) {
        self.set_mapcount(WHOLE);
    }

    /// Notes that nothing is counted in a folio any more that only the caller owns.
    pub(in crate::frame) fn end_as_folio(&self) {
        debug_assert_eq!(self.mapcount(), 0, "a block is freed while it is mapped");
        self.set_mapcount(0);
    }

    /// Waits until the split of a folio of an object has ended that has begun, or is about to.
    pub(in crate::frame) fn wait_for_split(&self) {
        while self.settled() & WHOLE != 0 {
            C::relax();
        }
    }

    /// Makes the folio exclusive again, where one huge leaf maps it, in a table whose lock the caller holds,
    /// and there is no other reference. `false`, and no change, also where it was split.
    ///
    /// Acquire: what was read through leaves that are gone was read before the folio is written.
    pub(crate) fn try_make_folio_exclusive(&self) -> bool {
        let is_only = self.mapcount.load(Acquire) == WHOLE | 1 || mutant!("thp.reuse-ignores-leaves");
        let done = is_only && self.step_shared(FrameState::set_exclusive).is_some();
        if done {
            // No other thread has a leaf to count, or makes one.
            self.mapcount.store(1, Relaxed);
        }
        done
    }

    /// Whether one entry maps a frame of a folio that was split: the huge leaf of the caller, which holds its
    /// table's lock. Then no other comes. Acquire: as
    /// [`try_make_folio_exclusive`](Self::try_make_folio_exclusive).
    pub(in crate::frame) fn is_mapped_once(&self) -> bool {
        self.mapcount.load(Acquire) == 1
    }

    /// Takes the record of a frame back that was part of a folio and is [mapped
    /// once](Self::is_mapped_once), by a leaf of the folio. `false`, and no change, where there is a
    /// reference.
    pub(in crate::frame) fn rejoin_part(&self) -> bool {
        let done = self.step_shared(FrameState::rejoined).is_some();
        if done {
            // The caller's alone from now on: no getter finds user memory here.
            self.mapcount.store(0, Relaxed);
            self.set_anon_key(None);
        }
        done
    }

    /// Makes the first of such frames, when all others were taken back, an exclusive folio. `false`, and no
    /// change, where there is a reference.
    pub(in crate::frame) fn rejoin_first(&self, order: Order) -> bool {
        self.step_shared(|state| state.rejoined_first(order)).is_some()
    }

    /// Whether a write needs a split of the folio, unless that changes: others map it, or it was split.
    pub(crate) fn may_folio_need_split(&self) -> bool {
        let (state, word) = (self.state(), self.mapcount.load(Relaxed));
        !state.is_exclusive() && (state.has_one_reference(), word) != (true, WHOLE | 1)
    }

    /// Begins the split of a shared folio: the number of its leaves, which stays. `None` where it was split.
    /// The caller has a leaf of it, writes the records of the other frames, and ends the split.
    pub(in crate::frame) fn begin_folio_split(&self) -> Option<u32> {
        let begun = self.step_whole(|word| Some(word & COUNT | SPLITTING))?;
        Some(begun & COUNT)
    }

    /// Ends a split. Release: a thread that finds the folio split finds the records of its frames.
    pub(in crate::frame) fn end_folio_split(&self, leaves: u32) {
        let order = if mutant!("thp.split-ended-relaxed") { Relaxed } else { Release };
        self.mapcount.store(leaves, order);
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_shared_folio.rs"]
mod loom_tests;
