//! The word of a huge zero page: its frame, its users, and whether it goes with the last user.
//!
//! | bits | holds |
//! |---|---|
//! | 0..31 | users: references, one for each space that has used the page |
//! | 31 | *dying*: the user that is left last frees the page |
//! | 32..64 | the page's first frame, divided by 512, plus 1; 0: there is no page |
//!
//! Without a page the word is 0; without users it is not *dying*. All values and transitions:
//!
//! ```text
//!           placed                 gotten                  gotten
//!   no page ─────► page, 1 user ◄────────► page, n users ◄─────────┐
//!    ▲  ▲               │ put        put        │ shrunk            │
//!    │  └──── shrunk ── page, no user           └────► dying, n users
//!    └───────────────────────── put of the last ───────────┘
//! ```
//!
//! The page and the count of its users are one value, so a getter gets a reference to the page that is there
//! at that instant, and a page is taken away only at an instant at which it has no user. A page that
//! was freed and allocated again as the zero page, at the same place, is as good as the first: no CPU decides
//! anything from a word that it read earlier.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Order, Pfn};
use core::fmt;

/// The word as a value; transitions are pure functions from old to new.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct HugeZeroWord(u64);

const USERS: u64 = (1 << 31) - 1;
const DYING: u64 = 1 << 31;
const BLOCK_SHIFT: u32 = 32;

impl HugeZeroWord {
    /// There is no page.
    pub const NONE: Self = Self(0);

    const fn users(self) -> u64 {
        self.0 & USERS
    }

    const fn is_dying(self) -> bool {
        self.0 & DYING != 0
    }

    /// Whether no user fits any more.
    pub const fn is_full(self) -> bool {
        self.users() == USERS
    }

    /// The first frame of the page.
    pub const fn page(self) -> Option<Pfn> {
        match self.0 >> BLOCK_SHIFT {
            0 => None,
            block => Some(Pfn((block - 1) << Order::HUGE.0)),
        }
    }

    /// A page that begins at `pfn`, with one user. Refused where there is a page, or the number does not fit.
    pub fn placed(self, pfn: Pfn) -> Option<Self> {
        let block = (pfn.0 >> Order::HUGE.0) + 1;
        let fits = pfn.is_aligned(Order::HUGE) && block <= u64::MAX >> BLOCK_SHIFT;
        (self == Self::NONE && fits).then_some(Self(block << BLOCK_SHIFT | 1))
    }

    /// One user more; the page is wanted, so it is not *dying* any more. Refused where there is no page, or
    /// the count would overflow.
    pub fn gotten(self) -> Option<Self> {
        let fits = self.page().is_some() && self.users() < USERS;
        fits.then_some(Self((self.0 & !DYING) + 1))
    }

    /// One user less; no page any more, where it was dying and this was the last.
    pub fn put(self) -> Option<Self> {
        match self.users() {
            0 => None,
            1 if self.is_dying() => Some(Self::NONE),
            _ => Some(Self(self.0 - 1)),
        }
    }

    /// No page any more, where it has no user; else *dying*. Refused where nothing changes.
    pub fn shrunk(self) -> Option<Self> {
        if self.page().is_none() || self.is_dying() {
            return None;
        }
        let is_unused = self.users() == 0 || mutant!("zero.shrunk-while-used");
        Some(if is_unused { Self::NONE } else { Self(self.0 | DYING) })
    }
}

impl fmt::Debug for HugeZeroWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page() {
            None => f.write_str("no huge zero page"),
            Some(pfn) => {
                let dying = if self.is_dying() { ", dying" } else { "" };
                write!(f, "huge zero page {pfn:?}, {} users{dying}", self.users())
            }
        }
    }
}

/// The word, shared by all CPUs. Read by faults of spaces that begin to use the page, and when spaces end.
pub(in crate::frame) struct HugeZeroCell<C: Cpu>(AtomicU64<C>);

impl<C: Cpu> HugeZeroCell<C> {
    /// No page.
    pub const fn new() -> Self {
        Self(AtomicU64::new(HugeZeroWord::NONE.0))
    }

    /// The value; stale at once, but for the page as long as the caller has a reference.
    pub(super) fn word(&self) -> HugeZeroWord {
        HugeZeroWord(self.0.load(Relaxed))
    }

    /// Gets a reference to the page that is there.
    ///
    /// Acquire: the page is zero, and its record says what it is. Pairs with `place`; later transitions are
    /// read-modify-writes, which continue what it released.
    pub(super) fn try_get(&self) -> Option<Pfn> {
        let order = if mutant!("zero.got-relaxed") { Relaxed } else { Acquire };
        let got = self.0.update(order, Relaxed, |word| HugeZeroWord(word).gotten().map(|new| new.0));
        HugeZeroWord(got.ok()?).page()
    }

    /// Makes the page known, with one reference, the caller's. `false` where there is a page.
    ///
    /// Release: pairs with `try_get`. Acquire: with `shrink` and `put`, which took the page before away.
    pub(super) fn place(&self, pfn: Pfn) -> bool {
        self.0.update(AcqRel, Relaxed, |word| HugeZeroWord(word).placed(pfn).map(|new| new.0)).is_ok()
    }

    /// Puts a reference. Returns the page if it was the last one: the page is the caller's to free.
    ///
    /// Release: what was read through the caller's entries was read before the page is freed. Acquire: so of
    /// the others. Pairs with itself, and with `shrink`.
    pub(super) fn put(&self) -> Option<Pfn> {
        self.take_away(HugeZeroWord::put)
    }

    /// Takes the page away where it has no user, and returns it: it is the caller's to free. Else it goes
    /// with its last user. Orders as `put`.
    pub(super) fn shrink(&self) -> Option<Pfn> {
        self.take_away(HugeZeroWord::shrunk)
    }

    fn take_away(&self, next: impl Fn(HugeZeroWord) -> Option<HugeZeroWord>) -> Option<Pfn> {
        let old = self.0.update(AcqRel, Relaxed, |word| next(HugeZeroWord(word)).map(|new| new.0)).ok()?;
        let is_gone = next(HugeZeroWord(old)) == Some(HugeZeroWord::NONE);
        HugeZeroWord(old).page().filter(|_| is_gone)
    }
}

impl<C: Cpu> fmt::Debug for HugeZeroCell<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.word())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/huge_zero_word.rs"]
mod tests;
