//! The record of a frame, and the only code that reads or writes one.
//!
//! 32 bytes, all-zero valid:
//!
//! | bytes | field | by kind |
//! |---|---|---|
//! | 0..8 | state | [`FrameState`]: kind, order, flags, references, pins |
//! | 8..12 | mapcount | `User`, `Object`: entries that map the frame; the flags are `shared_folio`'s |
//! | | | `Table`: the lock of its entries |
//! | | | `Slab`: allocated objects |
//! | 12..16 | word | `Table`: which parts may be in use |
//! | | | `Slab`: its free objects |
//! | 16..24 | first link | `Free`, `Slab`: the frame before it in the list, plus one |
//! | | | `Table`: the retire link's first half; in a gather, whether the table is zero |
//! | | | `User`: bits 0..32 the node of its [`AnonKey`]; 32..64 zero |
//! | | | `Object`: the number of its object |
//! | 24..32 | second link | `Free`, `Slab`: the frame after it in the list, plus one |
//! | | | `Table`: the retire link's second half; in a gather, the next table, plus one |
//! | | | `User`: bit 63 set: bits 0..63 are the page of its `AnonKey` |
//! | | | `User`: bit 63 clear: no such page, or, in a gather, the next frame, plus one |
//! | | | `Object`: its page in the object |
//!
//! Fields without a use in a kind are 0, but for the first link of user memory that has no `AnonKey`. Of the
//! mapcount, bit 29 is set in frames of objects alone: whatever a frame has become since it was looked up,
//! an exchange that expects the bit changes the count of such a frame, or nothing.
//!
//! Two records share a cache line. CPUs take frames from their zone in runs that start at even numbers, so
//! two CPUs write one line only where frames were freed on another CPU than they were allocated on, or memory
//! is in fragments.

use crate::frame::Init;
use crate::frame::record::shared_folio::COUNT;
use crate::frame::record::{AnonKey, FrameState, Kind};
use crate::machine::Cpu;
use crate::sync::RawSpinLock;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::units::{Level, Pfn};
use core::fmt;

/// The record of one frame. See the module for its fields.
#[repr(C, align(32))]
pub struct FrameMeta<C: Cpu> {
    /// Counted kinds change by read-modify-writes, all others by their owner's plain stores. The last `put`
    /// acquires what earlier ones released.
    state: AtomicU64<C>,
    /// Read for decisions only under the lock of a table that maps the frame, or as a hint. Changed by
    /// read-modify-writes, but by a plain store where one entry maps the frame and the caller holds its lock.
    pub(super) mapcount: AtomicU32<C>,
    /// See the table of the module.
    word: AtomicU32<C>,
    /// Relaxed: guarded by the owner of the frame, which its kind names. Of user memory they are written
    /// before the store that makes it that, which releases them, and the second one again by the gather that
    /// has the frame; read by holders of references (`anon_key`).
    pub(super) link: [AtomicU64<C>; 2],
}

/// Neighbours of a frame in a list of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::frame) struct Links {
    pub prev: Option<Pfn>,
    pub next: Option<Pfn>,
}

/// Slots of a table whose use is noted together.
pub(crate) const SLOTS_PER_PART: usize = Level::ENTRIES / u32::BITS as usize;

/// Why a frame gets no second mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotMappedAgain {
    /// Its mapcount would overflow.
    TooManyMappings,
    /// It is *exclusive*, and has a reference besides the entry's: perhaps it is pinned.
    Referenced,
    /// It is an object's: faults of the child find it there.
    OfObject,
}

impl<C: Cpu> FrameMeta<C> {
    /// The state; for counted kinds the count is stale at once.
    #[inline(always)]
    pub fn state(&self) -> FrameState {
        let state = FrameState(self.state.load(Relaxed));
        debug_assert!(state.is_sound(), "a record is looked at before it was written: {:#x}", state.0);
        state
    }

    /// Stores the state of a frame that only the caller owns.
    #[inline(always)]
    pub(in crate::frame) fn set_state(&self, state: FrameState) {
        self.state.store(state.0, Relaxed);
    }

    /// A transition of a frame that only the caller owns: a load and a store. `None` where it is refused.
    #[inline(always)]
    pub(super) fn step(&self, next: impl FnOnce(FrameState) -> Option<FrameState>) -> Option<FrameState> {
        let new = next(self.state())?;
        // Release: a getter that sees the new kind sees the owner's earlier stores to the record.
        self.state.store(new.0, Release);
        Some(new)
    }

    /// A transition of a frame that other CPUs may hold: a read-modify-write. `None` where it is refused.
    pub(super) fn step_shared(&self, next: impl Fn(FrameState) -> Option<FrameState>) -> Option<FrameState> {
        let step = |word| next(FrameState(word)).map(|new| new.0);
        let old = self.state.update(AcqRel, Relaxed, step).ok()?;
        next(FrameState(old))
    }

    /// Puts a taken frame to a use: `User` (exclusive), `Object`, `Table` (not attached), `Slab` or `Zero`.
    /// Counts are those of a frame that nothing maps yet. `false` where the frame is not just taken.
    #[inline(always)]
    pub(in crate::frame) fn put_to_use(&self, kind: Kind) -> bool {
        debug_assert_eq!((self.mapcount(), self.word.load(Relaxed)), (0, 0), "counts of a frame just taken");
        if kind == Kind::User {
            self.set_anon_key(None);
        }
        self.step(|state| state.becomes(kind)).is_some()
    }

    /// Puts a frame that was just taken to use as user memory that one entry is going to map: that of the
    /// page of `key`, if that is one of a space's.
    #[inline(always)]
    pub(in crate::frame) fn become_mapped_user(&self, key: Option<AnonKey>) {
        debug_assert_eq!(self.state(), FrameState::TAKEN_FRAME);
        debug_assert_eq!((self.mapcount(), self.word.load(Relaxed)), (0, 0), "counts of a frame just taken");
        let is_late = mutant!("rmap.birth-after-kind");
        if !is_late {
            self.set_anon_key(key);
        }
        self.mapcount.store(1, Relaxed);
        // Release: a getter that sees the new kind sees the owner's earlier stores to the record.
        self.state.store(FrameState::USER_FRAME.0, Release);
        if is_late {
            self.set_anon_key(key);
        }
    }

    /// Gives a detached table, an emptied slab or a huge zero page without users back to its owner, as
    /// plain taken frames.
    pub(in crate::frame) fn relinquish(&self) -> bool {
        let done = self.step(FrameState::relinquished).is_some();
        if done {
            self.mapcount.store(0, Relaxed);
            self.word.store(0, Relaxed);
        }
        done
    }

    /// Raises the refcount of user memory. `false` where the frame is not user memory (any more).
    #[inline]
    pub(in crate::frame) fn try_get(&self) -> bool {
        self.step_shared(FrameState::gotten).is_some()
    }

    /// As [`try_get`](Self::try_get), of a pin: of a frame that the page keeps as long as there is a
    /// reference. The read-modify-write that counts is the one that finds the frame *exclusive*, so it needs
    /// no fence: `clear_exclusive` comes before, and is seen, or after, and sees the pin.
    /// `writable`: whether the entry that led to it allows stores.
    #[inline]
    pub(in crate::frame) fn try_get_to_pin(&self, writable: bool) -> bool {
        self.step_shared(|state| state.gotten_to_pin(writable)).is_some()
    }

    /// Lowers the refcount of user memory. Returns the new state: after the last reference only the caller
    /// owns the frame, and must free it.
    #[inline]
    pub(in crate::frame) fn put(&self) -> Option<FrameState> {
        self.step_shared(FrameState::put)
    }

    /// Puts the last reference of an exclusive frame of which the record says no more, and marks it as
    /// cached: only the caller owns it. `false`, and no change, of any other: see [`put`](Self::put). One
    /// read-modify-write, as there.
    #[inline(always)]
    pub(in crate::frame) fn put_last_to_cache(&self) -> bool {
        debug_assert_eq!(self.mapcount(), 0, "a frame is freed while in use");
        let (used, cached) = (FrameState::USER_FRAME, FrameState::cached(Init::Dirty));
        if mutant!("frame.freed-while-referenced") {
            self.state.store(cached.0, Release);
            return true;
        }
        let is_done = self.state.compare_exchange(used.0, cached.0, AcqRel, Relaxed).is_ok();
        debug_assert!(!is_done || self.pincount() == 0, "a pinned frame is freed");
        is_done
    }

    /// Clears *exclusive*: a write needs a copy from now on. `false` where it was clear, or where there is a
    /// reference besides the entry's, perhaps a pin. The caller holds the lock of the table that maps the
    /// frame. A read-modify-write: a lockless walker may be raising the refcount.
    pub(crate) fn clear_exclusive(&self) -> bool {
        self.step_shared(FrameState::clear_exclusive).is_some()
    }

    /// Sets *exclusive* where one entry maps the frame, and the reference of the entries is the only one. The
    /// caller holds the lock of the table that maps it, so the one entry is in that table, and no other
    /// appears: adding one takes a reference, or the lock.
    ///
    /// Acquire: what was read through entries that are gone was read before the frame is written. Pairs with
    /// [`remove_mapping`](Self::remove_mapping).
    pub(crate) fn try_make_exclusive(&self) -> bool {
        let is_only = self.mapcount.load(Acquire) == 1 || mutant!("cow.reuse-ignores-mapcount");
        is_only && self.step_shared(FrameState::set_exclusive).is_some()
    }

    /// Whether a write has to copy the frame, unless that changes: others map it or have references.
    pub(crate) fn may_need_copy(&self) -> bool {
        // What is exclusive is mapped once; the count of an object's frame has a flag.
        let is_kept = |state: FrameState| state.has_one_reference() || state.is_exclusive();
        self.mapcount.load(Relaxed) != 1 || !is_kept(self.state())
    }

    /// Counts a second mapping of a frame, which is not *exclusive* afterwards. The caller holds the lock of
    /// the table whose entry maps it.
    ///
    /// Of an exclusive frame that entry is the only one, which stays: so its mapcount is 1, and no other
    /// thread changes it. A plain store.
    ///
    /// # Errors
    /// The mapcount would overflow, or the frame is exclusive and has another reference.
    pub(in crate::frame) fn map_again(&self) -> Result<(), NotMappedAgain> {
        let kept = |cleared: FrameState, word| if mutant!("fork.exclusive-kept") { word } else { cleared.0 };
        let clear = |word| FrameState(word).clear_exclusive().map(|cleared| kept(cleared, word));
        match self.state.update(AcqRel, Relaxed, clear) {
            Ok(_) => {
                debug_assert_eq!(self.mapcount(), 1, "one entry maps what is exclusive");
                self.mapcount.store(2, Relaxed);
                Ok(())
            }
            Err(word) if FrameState(word).is_exclusive() => Err(NotMappedAgain::Referenced),
            Err(word) if FrameState(word).kind() == Kind::Object => Err(NotMappedAgain::OfObject),
            _ => self.add_mapping().map(|_| ()).ok_or(NotMappedAgain::TooManyMappings),
        }
    }

    /// Sets or clears *lazyfree*. The caller holds the lock of the table that maps it.
    pub(crate) fn set_lazyfree(&self, lazyfree: bool) {
        self.step_shared(|state| state.with_lazyfree(lazyfree));
    }

    /// Sets *dirty* of user memory: an entry that is gone now was written through.
    pub(in crate::frame) fn note_dirty(&self) {
        self.step_shared(FrameState::dirtied);
    }

    /// Sets *attached* of a table that only the caller owns. `false` where it was set.
    pub(in crate::frame) fn attach(&self) -> bool {
        self.step(FrameState::attached).is_some()
    }

    /// Clears *attached*; a walker that finds it cleared restarts. `false` where it was clear: of several
    /// callers, one detaches the table. The caller holds the table's lock.
    pub(in crate::frame) fn detach(&self) -> bool {
        self.step_shared(FrameState::detached).is_some()
    }

    /// Number of entries that map the frame, or the folio that it leads; of a slab, allocated objects.
    pub fn mapcount(&self) -> u32 {
        self.mapcount.load(Relaxed) & COUNT
    }

    /// Sets the mapcount of a frame that only the caller owns.
    pub(in crate::frame) fn set_mapcount(&self, count: u32) {
        self.mapcount.store(count, Relaxed);
    }

    /// Lowers the mapcount of an exclusive frame to 0: a plain store, because no other entry maps it. The
    /// caller has cleared that entry, and the frame was *exclusive* after that.
    #[inline(always)]
    pub(in crate::frame) fn remove_only_mapping(&self) {
        debug_assert_eq!(self.mapcount(), 1, "one entry maps what is exclusive");
        self.mapcount.store(0, Relaxed);
    }

    /// Makes the reference of the caller a pin. `false` where the pincount would overflow.
    pub(in crate::frame) fn pin(&self) -> bool {
        self.step_shared(FrameState::pinned).is_some()
    }

    /// As [`put`](Self::put), of a pin.
    #[inline]
    pub(in crate::frame) fn unpin(&self) -> Option<FrameState> {
        self.step_shared(FrameState::unpinned)
    }

    /// Number of pins; stale at once. What is decided because of pins asks for references instead: a
    /// reference may be about to become a pin.
    ///
    /// Acquire: a caller that finds a pin gone sees what was done to the frame through it. Pairs with
    /// `unpin`, and with the read-modify-writes after it.
    pub fn pincount(&self) -> u32 {
        FrameState(self.state.load(Acquire)).pincount()
    }

    /// Of a table: a bit for each part of it, clear where all slots of the part are absent. The caller holds
    /// the table's lock.
    #[inline(always)]
    pub(crate) fn used_parts(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// Notes which parts of a table may be in use. The caller holds the table's lock.
    #[inline(always)]
    pub(crate) fn set_used_parts(&self, parts: u32) {
        self.word.store(parts, Relaxed);
    }

    /// The lock of a table page's entries.
    pub(crate) fn table_lock(&self) -> &RawSpinLock<C> {
        debug_assert_eq!(self.state().kind(), Kind::Table, "only tables have a lock");
        RawSpinLock::from_word(&self.mapcount)
    }

    /// The owner of memory of an object, as numbers that the owner understands: an object and an offset in
    /// it.
    pub fn owner(&self) -> (u64, u64) {
        (self.link[0].load(Relaxed), self.link[1].load(Relaxed))
    }

    /// Notes the owner of memory of an object.
    pub(in crate::frame) fn set_owner(&self, object: u64, offset: u64) {
        self.link[0].store(object, Relaxed);
        self.link[1].store(offset, Relaxed);
    }

    /// The neighbours in a list. A word is 0 for none, else the frame number plus one.
    pub(in crate::frame) fn links(&self) -> Links {
        let frame = |word: u64| word.checked_sub(1).map(Pfn);
        Links { prev: frame(self.link[0].load(Relaxed)), next: frame(self.link[1].load(Relaxed)) }
    }

    /// The next frame of a list.
    #[inline(always)]
    pub(in crate::frame) fn next(&self) -> Option<Pfn> {
        self.link[1].load(Relaxed).checked_sub(1).map(Pfn)
    }

    pub(in crate::frame) fn set_prev(&self, prev: Option<Pfn>) {
        self.link[0].store(prev.map_or(0, |pfn| pfn.0 + 1), Relaxed);
    }

    pub(in crate::frame) fn set_next(&self, next: Option<Pfn>) {
        self.link[1].store(next.map_or(0, |pfn| pfn.0 + 1), Relaxed);
    }

    /// The free objects of a slab; see `slab`. The caller holds the slab pool's lock.
    pub(in crate::frame) fn slab_word(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// Notes the free objects of a slab. The caller holds the slab pool's lock.
    pub(in crate::frame) fn set_slab_word(&self, word: u32) {
        self.word.store(word, Relaxed);
    }
}

impl<C: Cpu> fmt::Debug for FrameMeta<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} mapcount {}", self.state(), self.mapcount())
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_meta.rs"]
mod loom_tests;
