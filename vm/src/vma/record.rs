//! A mapping's record, an immutable value with one word that changes; and the index of records.
//!
//! Lookups and faults read the record without a lock, so its attributes are fixed before it is published. The
//! word holds its state and the identity of its private copies:
//!
//! | bits 0-1 | state | meaning |
//! |---|---|---|
//! | 0 | *stale* | replaced or unmapped; final. Zeroed memory is a stale record |
//! | 1 | *live* | valid |
//! | 2 | *busy* | published, but entries still belong to the old mapping: a fault falls back and waits |
//! | 3 | *frozen* | valid, but gets no identity while a writer decides on it |
//!
//! Bits 2-14 count the readers that hold the record ([`Vma::hold`]); 0 but for faults under
//! [`Path::VmaLock`](crate::space::Path). Bits 15-63 are the [`AnonId`]: 0 until the first private copy, then
//! fixed.
//!
//! ```text
//!              make_live             mark_stale
//!      busy <--------------> live ---------------> stale
//!        \     make_busy     |  ^                 ^  ^
//!         \           freeze |  | thaw            |  |
//!          \                 v  |     mark_stale  |  |
//!           \               frozen ---------------'  |
//!            '---------------------------------------'
//!                        mark_stale
//! ```
//!
//! State and identity share a word because an identity may be given by a fault that holds no lock of the
//! writer's. It is given only to a live record, by an exchange that fails once the record is frozen or
//! marked. So the identity that a writer reads after freezing does not change, and [`Vma::mark_stale`]
//! returns the final one: no identity is lost in the records that replace this one.
//!
//! # Readers that hold the record
//!
//! ```text
//!   reader (read section)                writer
//!
//!   valid? count+1         Acquire ◄──►  mark stale, and see the count    AcqRel, the same word
//!      │ no: falls back                  count = 0? wait                  Acquire
//!   use the record, without a question       ▲
//!   count-1                Release ──────────┘
//! ```
//!
//! Mark and count are in one word, so that either the reader finds the mark, or the writer the count. No
//! reader comes after the mark, and each that was there goes on: it is in a read section, does not sleep, and
//! waits for locks of tables and of memory, of which the writer holds none.

use super::state_word as word;
use super::{AnonId, BackingWord, GUARD_PAGES, Gaps, Policy, VmaAttributes, VmaFlags};
use crate::index::{IndexItem, RangeIndex, Ranged};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Plain, ReadGuard, wait_until};
use crate::units::{CACHE_LINE, PageSize, Rights, Vpn, VpnRange};
use core::fmt;

/// The state of a mapping's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum VmaState {
    /// Replaced or unmapped.
    Stale = 0,
    /// Valid.
    Live = 1,
    /// Published, but entries of its range still belong to the old mapping.
    Busy = 2,
    /// Valid, but gets no identity for now.
    Frozen = 3,
}

/// A mapping in the index. With its RCU head it takes one cache line.
#[repr(C)]
pub struct Vma<C: Cpu> {
    range: Plain<VpnRange, C>,
    offset: Plain<u64, C>,
    backing: Plain<BackingWord, C>,
    /// State, readers and identity. [`Vma::make_live`] releases the entries edited while the record was busy
    /// and pairs with the acquiring loads here. The stale mark needs no ordering of its own: a writer that
    /// edits entries afterwards takes their table's lock, and a fault that installs under that lock reads the
    /// word first.
    word: AtomicU64<C>,
    flags: Plain<VmaFlags, C>,
    policy: Plain<Policy, C>,
}

impl<C: Cpu> Vma<C> {
    /// A record of `attributes`, in `state`; not published yet.
    pub const fn new(attributes: VmaAttributes, state: VmaState) -> Self {
        // A lookup that ends at a record touches one line.
        const { assert!(size_of::<IndexItem<Self>>() == CACHE_LINE) };
        Self {
            range: Plain::new(attributes.range),
            offset: Plain::new(attributes.offset),
            backing: Plain::new(attributes.backing),
            word: AtomicU64::new(word::of(state, attributes.anon)),
            flags: Plain::new(attributes.flags),
            policy: Plain::new(attributes.policy),
        }
    }

    /// Its attributes, with the identity that it has now.
    #[inline]
    pub fn attributes(&self) -> VmaAttributes {
        VmaAttributes {
            range: self.range.get(),
            flags: self.flags.get(),
            backing: self.backing.get(),
            offset: self.offset.get(),
            anon: self.anon(),
            policy: self.policy.get(),
        }
    }

    /// The NUMA nodes that its memory comes from.
    #[inline(always)]
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Its pages.
    #[inline(always)]
    pub fn range(&self) -> VpnRange {
        self.range.get()
    }

    /// Its flags.
    #[inline(always)]
    pub fn flags(&self) -> VmaFlags {
        self.flags.get()
    }

    /// The rights that its entries may have.
    #[inline(always)]
    pub fn rights(&self) -> Rights {
        self.flags.get().rights()
    }

    /// Whether it is anonymous memory.
    #[inline(always)]
    pub fn is_anonymous(&self) -> bool {
        self.backing.get().is_anonymous()
    }

    /// Whether a store is this mapping's alone: it copies what others have.
    #[inline(always)]
    pub fn is_private(&self) -> bool {
        !self.flags.get().contains(VmaFlags::SHARED)
    }

    /// What it maps.
    #[inline]
    pub fn backing(&self) -> BackingWord {
        self.backing.get()
    }

    /// The size of its pages, if it maps the hugetlb pool.
    #[inline]
    pub fn hugetlb_size(&self) -> Option<PageSize> {
        self.backing.get().hugetlb().map(|hugetlb| hugetlb.size)
    }

    /// Whether the page lies in its range.
    #[inline(always)]
    pub fn contains(&self, vpn: Vpn) -> bool {
        self.range.get().contains(vpn)
    }

    /// Page within the backing at `vpn`.
    #[inline(always)]
    pub fn frame_offset(&self, vpn: Vpn) -> u64 {
        self.offset.get().wrapping_add(vpn.0.wrapping_sub(self.range.get().start.0))
    }

    /// Its state.
    #[inline(always)]
    pub fn state(&self) -> VmaState {
        word::state(self.word.load(Ordering::Acquire))
    }

    /// Whether it is valid: live or frozen.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        word::is_true(self.word.load(Ordering::Acquire))
    }

    /// Identity of its private copies.
    #[inline(always)]
    pub fn anon(&self) -> AnonId {
        word::anon(self.word.load(Ordering::Acquire))
    }

    /// Gives it the identity `anon` unless it has one, and returns its identity. `None` if it has none and
    /// cannot get one: it is stale, busy or frozen.
    ///
    /// Called under the lock of the table page into which the copy is installed.
    pub fn give_anon(&self, anon: AnonId) -> Option<AnonId> {
        let given = self.word.update(Ordering::AcqRel, Ordering::Acquire, |old| word::given(old, anon));
        match given {
            Ok(_) => Some(anon),
            Err(found) => word::is_true(found).then(|| word::anon(found)).filter(|anon| !anon.is_none()),
        }
    }

    /// Keeps it without an identity until [`thaw`](Self::thaw), and returns whether this call froze it: not
    /// if it has an identity already, nor if it is not live. The space lock is held for writing.
    pub fn freeze(&self) -> bool {
        self.word.update(Ordering::AcqRel, Ordering::Acquire, word::frozen).is_ok() || self.freeze_held()
    }

    /// As [`freeze`](Self::freeze), of a record that readers may hold: they give it no identity from then on.
    #[cold]
    #[inline(never)]
    fn freeze_held(&self) -> bool {
        self.word.update(Ordering::AcqRel, Ordering::Acquire, word::frozen_while_held).is_ok()
    }

    /// Ends a freeze. Does nothing if the record is not frozen: it has been replaced. The space lock is held
    /// for writing.
    pub fn thaw(&self) {
        let _ = self.word.update(Ordering::Release, Ordering::Relaxed, word::thawed);
    }

    /// Makes it live: the entries of its range are its own from now on. The space lock is held for writing.
    pub fn make_live(&self) {
        let made = self.word.update(Ordering::Release, Ordering::Relaxed, word::made_live);
        debug_assert!(made.is_ok(), "only a busy mapping is made live");
    }

    /// Makes a live record busy: from now on no fault installs anything for it, until it is
    /// [made live](Self::make_live) again. The space lock is held for writing, and no lock of a table. Waits
    /// for the readers that hold the record.
    pub(crate) fn make_busy(&self) {
        if mutant!("remap.source-left-live") {
            return;
        }
        let made = self.word.update(Ordering::AcqRel, Ordering::Relaxed, word::made_busy);
        debug_assert!(made.is_ok(), "only a live mapping is made busy");
        if let Ok(old) = made
            && word::is_held(old)
        {
            self.wait_for_readers();
        }
    }

    /// Marks it stale, before it is replaced in the index, and returns its final identity. The space lock is
    /// held for writing, and no lock of a table. Waits for the readers that hold the record.
    ///
    /// If the record was frozen before, that is the identity on which the writer decided.
    pub fn mark_stale(&self) -> AnonId {
        let mark = |old| Some(word::marked_stale(old));
        let (Ok(old) | Err(old)) = self.word.update(Ordering::AcqRel, Ordering::Relaxed, mark);
        if word::is_held(old) && !mutant!("vma.readers-not-awaited") {
            self.wait_for_readers();
        }
        word::anon(old)
    }

    /// Waits until no reader holds the record, which is not valid.
    #[cold]
    #[inline(never)]
    fn wait_for_readers(&self) {
        // Acquire: pairs with the release of `VmaHold`; what a reader has installed is seen from here on.
        wait_until::<C>(|| !word::is_held(self.word.load(Ordering::Acquire)));
    }

    /// Holds the record: a writer that marks it stale waits until the result is dropped. `None` where it is
    /// not valid, or as many readers hold it as can be counted.
    ///
    /// Until then the caller is in one read section, which keeps the record in memory; it waits for locks of
    /// tables and of memory at most.
    #[inline]
    pub(crate) fn hold<'g>(&'g self, _reading: &'g ReadGuard<'_, C>) -> Option<VmaHold<'g, C>> {
        let counted = self.word.update(Ordering::Acquire, Ordering::Relaxed, word::with_reader);
        // Made only where it is counted: dropping one takes it away.
        counted.is_ok().then(|| VmaHold { word: &self.word })
    }
}

/// A record that a reader holds.
#[derive(Debug)]
#[must_use = "the record is held until this is dropped"]
pub struct VmaHold<'g, C: Cpu> {
    word: &'g AtomicU64<C>,
}

impl<C: Cpu> Drop for VmaHold<'_, C> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the writer's wait.
        self.word.fetch_sub(word::one_reader(), Ordering::Release);
    }
}

impl<C: Cpu> fmt::Debug for Vma<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.state(), self.attributes())
    }
}

/// Number of mappings that Linux allows a process by default (`vm.max_map_count`).
pub const MAX_MAPPINGS: usize = 65_530;

/// The mappings of an address space. Lookups need a read section. A caller that replaces mappings, or
/// searches for gaps, holds the space's lock (for writing to replace). The records that a replacement removes
/// are marked stale before it is published.
pub type VmaTree<'m, C> = RangeIndex<'m, Vma<C>, C>;

impl<C: Cpu> Ranged for Vma<C> {
    fn range(&self) -> VpnRange {
        self.range()
    }

    fn guard_pages(&self) -> u64 {
        if self.flags().contains(VmaFlags::GROWS_DOWN) { GUARD_PAGES } else { 0 }
    }

    /// From the mark on, speculative faults find the record stale.
    fn before_unlink(&self) {
        if !mutant!("vma.stale-not-marked") {
            self.mark_stale();
        }
    }

    #[cfg(loom)]
    fn touch(&self) {
        let _state = self.is_live();
    }
}

/// The gaps between the mappings of an index. The caller holds the space's lock, or they are stale.
pub struct TreeGaps<'g, 'm, C: Cpu>(pub &'g VmaTree<'m, C>, pub &'g ReadGuard<'g, C>);

impl<C: Cpu> Gaps for TreeGaps<'_, '_, C> {
    fn lowest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.0.lowest_gap(self.1, window, nr_pages, 1)
    }
    fn highest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.0.highest_gap(self.1, window, nr_pages, 1)
    }
}

impl<C: Cpu> fmt::Debug for TreeGaps<'_, '_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gaps of {:?}", self.0)
    }
}
