//! A mapping's record: an immutable value with one word that changes.
//!
//! Lookups and faults read the record without a lock, so what it says is fixed before it is published. The
//! word tells what became of it, and whose private copies it holds:
//!
//! | bits 0-1 | state | meaning |
//! |---|---|---|
//! | 0 | *stale* | replaced: what it says is no longer true. Final. Also what zeroed memory says |
//! | 1 | *live* | true |
//! | 2 | *busy* | published, but its entries are not yet its own: a fault falls back and waits |
//! | 3 | *frozen* | true, but gets no identity while a writer decides on it |
//!
//! Bits 2-63 are the [`AnonId`]: 0 until the first private copy, then fixed.
//!
//! ```text
//!              make_live             mark_stale
//!      busy ---------------> live ---------------> stale
//!        \                   |  ^                 ^  ^
//!         \           freeze |  | thaw            |  |
//!          \                 v  |     mark_stale  |  |
//!           \               frozen ---------------'  |
//!            '---------------------------------------'
//!                        mark_stale
//! ```
//!
//! State and identity share a word because an identity may be given by a fault that holds no lock of the
//! writer's. It is given only to a live record, by an exchange that fails once the record is frozen or
//! marked. So what a writer reads after freezing stays, and what [`Vma::mark_stale`] returns is what the
//! record ends with: no identity is lost on the way into the records that follow.

use super::state_word as word;
use super::{AnonId, BackingId, Policy, VmaAttributes, VmaFlags};
use crate::index::IndexItem;
use crate::machine::Cpu;
use crate::sync::Plain;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::units::{CACHE_LINE, Rights, Vpn, VpnRange};
use core::fmt;

/// What became of a mapping's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum VmaState {
    /// Replaced or unmapped.
    Stale = 0,
    /// True.
    Live = 1,
    /// Published, but its entries are not yet its own.
    Busy = 2,
    /// True, but gets no identity for now.
    Frozen = 3,
}

/// A mapping, as the index holds it; with the link that retires it, one cache line.
#[repr(C)]
pub struct Vma<C: Cpu> {
    range: Plain<VpnRange, C>,
    offset: Plain<u64, C>,
    backing: Plain<Option<BackingId>, C>,
    /// State and identity. [`Vma::make_live`] releases the entries that were made ready while busy and pairs
    /// with the acquiring loads here. A mark needs no order of its own: a writer that edits entries
    /// afterwards takes their table's lock, and a fault that installs under that lock reads the word first.
    word: AtomicU64<C>,
    flags: Plain<VmaFlags, C>,
    policy: Plain<Policy, C>,
}

impl<C: Cpu> Vma<C> {
    /// A record that says `attributes`, in `state`; not published yet.
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

    /// All that it says, with the identity of this moment.
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

    /// Which nodes its memory comes from.
    #[inline(always)]
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Its pages.
    #[inline(always)]
    pub fn range(&self) -> VpnRange {
        self.range.get()
    }

    /// Its attributes.
    #[inline(always)]
    pub fn flags(&self) -> VmaFlags {
        self.flags.get()
    }

    /// What the hardware may be told.
    #[inline(always)]
    pub fn rights(&self) -> Rights {
        self.flags.get().rights()
    }

    /// Whether it is private and filled with zeroes.
    #[inline(always)]
    pub fn is_private_anonymous(&self) -> bool {
        self.backing.get().is_none()
    }

    /// What its pages are filled from.
    #[inline(always)]
    pub fn backing(&self) -> Option<BackingId> {
        self.backing.get()
    }

    /// Whether the page is one of its own.
    #[inline(always)]
    pub fn contains(&self, vpn: Vpn) -> bool {
        self.range.get().contains(vpn)
    }

    /// Page within the backing at `vpn`.
    #[inline(always)]
    pub fn frame_offset(&self, vpn: Vpn) -> u64 {
        self.offset.get().wrapping_add(vpn.0.wrapping_sub(self.range.get().start.0))
    }

    /// What became of it.
    #[inline(always)]
    pub fn state(&self) -> VmaState {
        word::state(self.word.load(Ordering::Acquire))
    }

    /// Whether it is true, and its entries its own: live or frozen.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        word::is_true(self.word.load(Ordering::Acquire))
    }

    /// Whose private copies it holds.
    #[inline(always)]
    pub fn anon(&self) -> AnonId {
        word::anon(self.word.load(Ordering::Acquire))
    }

    /// Gives it the identity `anon` unless it has one, and says which it has. `None` where it has none and
    /// gets none: it is stale, busy or frozen.
    ///
    /// Called under the lock of the table page that the copy goes into.
    pub fn give_anon(&self, anon: AnonId) -> Option<AnonId> {
        let given = self.word.update(Ordering::AcqRel, Ordering::Acquire, |old| word::given(old, anon));
        match given {
            Ok(_) => Some(anon),
            Err(found) => word::is_true(found).then(|| word::anon(found)).filter(|anon| !anon.is_none()),
        }
    }

    /// Keeps it without an identity until [`thaw`](Self::thaw), and says whether this call froze it: not
    /// where it has one already, nor where it is not live. The space lock is held alone.
    pub fn freeze(&self) -> bool {
        self.word.update(Ordering::AcqRel, Ordering::Acquire, word::frozen).is_ok()
    }

    /// Ends a freeze. Nothing where it is not frozen: it has been replaced. The space lock is held alone.
    pub fn thaw(&self) {
        let _ = self.word.update(Ordering::Release, Ordering::Relaxed, word::thawed);
    }

    /// Says that its entries are its own from now on. The space lock is held alone.
    pub fn make_live(&self) {
        let made = self.word.update(Ordering::Release, Ordering::Relaxed, word::made_live);
        debug_assert!(made.is_ok(), "only a busy mapping is made live");
    }

    /// Says that it is replaced, before the index says so, and returns the identity it ends with. The space
    /// lock is held alone.
    ///
    /// The result is what a decision was made on, if the record was frozen before.
    pub fn mark_stale(&self) -> AnonId {
        let marked = self.word.update(Ordering::AcqRel, Ordering::Relaxed, word::marked_stale);
        word::anon(marked.unwrap_or_else(|found| found))
    }
}

impl<C: Cpu> fmt::Debug for Vma<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.state(), self.attributes())
    }
}
