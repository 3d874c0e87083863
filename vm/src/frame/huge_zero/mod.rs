//! The huge zero page: 2 MiB of zeros, which any number of entries of any number of spaces map to be read.
//!
//! It is allocated when a space first wants it, and its frames can be had back when no space uses it. Each
//! space takes one reference, however many entries it has, and puts it when it ends, when no CPU's TLB holds
//! a translation of it any more. Reference and page are one word (`word`), so a CPU that is stopped anywhere
//! keeps no other from going on:
//!
//! ```text
//!   getter                                shrinker                       word
//!   no page? allocate, zero, say so                                      no page
//!   place ──────────────────────────────────────────────────────────►    page, 1 user
//!     (another was faster: its page is used, this one is freed)
//!   ... entries map it; the space ends: put ────────────────────────►    page, no user
//!                                         shrink ───────────────────►    no page
//!   no page? allocate ... (it comes back)  record, free
//! ```
//!
//! From `shrink` on the page is the shrinker's alone, as it was the getter's alone before `place`: both are
//! one read-modify-write, and before and after it each of them works on frames that it alone knows. A
//! shrinker that finds users marks the page *dying*, so that it goes with the last of them; a getter takes
//! that back. (Linux: `mm_get_huge_zero_folio`, `huge_zero_refcount`, whose getters loop while one that has
//! allocated the page has not yet set the count.)
//!
//! Identity is the mark in the frame's record: [`ZeroPages::is_huge_zero`]. There is one page, or with
//! [`HugeZeroOptions::per_node`] one for each node with memory.
//!
//! docs/design/huge-zero-page.md has the details.

mod users;
mod word;

pub(crate) use users::{HugeZeroUse, NoHugeZero, Taken};
pub(super) use word::HugeZeroCell;

use super::{AllocRequest, Init, Kind, Memory, Priority};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, Pfn, PhysAddr};
use core::fmt;

/// What the huge zero page is like; may be changed at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HugeZeroOptions {
    /// Keep the page once it is there. (Linux: `CONFIG_PERSISTENT_HUGE_ZERO_FOLIO`.)
    pub persistent: bool,
    /// A page for each node with memory: spaces map the one of the node that the fault is on.
    pub per_node: bool,
}

impl HugeZeroOptions {
    /// A page that can be had back.
    pub const LAZY: Self = Self { persistent: false, per_node: false };

    /// The same, kept once it is there.
    pub const fn persistent(self) -> Self {
        Self { persistent: true, ..self }
    }

    /// The same, for each node.
    pub const fn per_node(self) -> Self {
        Self { per_node: true, ..self }
    }

    /// As bits of a word: 0 persistent, 1 for each node.
    const fn bits(self) -> u64 {
        self.persistent as u64 | (self.per_node as u64) << 1
    }

    const fn of_bits(bits: u64) -> Self {
        Self { persistent: bits & 1 != 0, per_node: bits & 2 != 0 }
    }
}

/// The zero pages of a memory: the huge one, and the table that shows one. Which frame the page of 4 KiB is
/// says [`Memory::zero_frame`].
pub struct ZeroPages<'m, M: Machine> {
    pub(super) memory: &'m Memory<'m, M>,
}

impl<M: Machine> Memory<'_, M> {
    /// The zero pages.
    #[inline(always)]
    pub fn zero_pages(&self) -> ZeroPages<'_, M> {
        ZeroPages { memory: self }
    }
}

impl<'m, M: Machine> ZeroPages<'m, M> {
    /// What the huge zero page is like from now on. Pages that spaces use stay as they are; one that is
    /// *dying* goes with its last user all the same.
    pub fn set_options(self, options: HugeZeroOptions) {
        self.memory.huge_zero_options.store(options.bits(), Relaxed);
    }

    /// What the huge zero page is like.
    pub fn options(self) -> HugeZeroOptions {
        HugeZeroOptions::of_bits(self.memory.huge_zero_options.load(Relaxed))
    }

    /// Whether a huge zero page begins at the frame. The answer stays as long as the caller's space has a
    /// reference; else it is stale at once.
    #[inline]
    pub fn is_huge_zero(self, pfn: Pfn) -> bool {
        self.memory.meta(pfn).is_some_and(|meta| meta.state().is_huge_zero())
    }

    /// Whether the frame is a zero page, or a huge one begins there: it is never written.
    #[inline]
    pub fn is_zero_page(self, pfn: Pfn) -> bool {
        self.memory.meta(pfn).is_some_and(|meta| meta.state().kind() == Kind::Zero)
    }

    /// Frees the huge zero pages that no space uses, unless they are kept; those in use go with their last
    /// user. Returns how many frames are free now. Takes no lock but a zone's, and waits for nothing. (Linux:
    /// `shrink_huge_zero_folio_scan`.)
    pub fn shrink(self) -> u64 {
        if self.options().persistent {
            return 0;
        }
        let freed = self.memory.zones.iter().filter_map(|zone| zone.huge_zero().shrink());
        freed.map(|pfn| self.free(pfn)).sum()
    }

    /// Frames of huge zero pages, used or not: they are allocated.
    pub fn huge_frames(self) -> u64 {
        let nr = self.memory.zones.iter().filter(|zone| zone.huge_zero().word().page().is_some()).count();
        nr as u64 * Order::HUGE.frames()
    }

    /// The index of the zone whose pages spaces map from this CPU.
    #[inline]
    pub(super) fn local(self) -> usize {
        if self.options().per_node { self.memory.distances.local_zone(M::Cpu::id()) } else { 0 }
    }

    /// What the zone of that index has of the huge zero page.
    #[inline]
    fn cell(self, zone: usize) -> &'m HugeZeroCell<M::Cpu> {
        self.memory.zones[zone].huge_zero()
    }

    /// A reference to the page of a zone, which is allocated where there is none and `alloc` says how.
    fn get(self, zone: usize, alloc: Option<Priority>) -> Result<(Pfn, Taken), NoHugeZero> {
        let mut own = None;
        let got = self.get_or_place(self.cell(zone), alloc, &mut own);
        if let Some(unneeded) = own
            && !mutant!("zero.losers-page-lost")
        {
            self.free(unneeded);
        }
        got
    }

    /// As [`get`](Self::get); in `own` a page is left that is not needed. Goes round again only where another
    /// CPU has placed a page, or has taken one away, meanwhile.
    fn get_or_place(
        self,
        cell: &HugeZeroCell<M::Cpu>,
        alloc: Option<Priority>,
        own: &mut Option<Pfn>,
    ) -> Result<(Pfn, Taken), NoHugeZero> {
        let shared = |pfn| (pfn, Taken::Shared);
        loop {
            if let Some(pfn) = cell.try_get() {
                return Ok(shared(pfn));
            }
            let priority = alloc.filter(|_| !cell.word().is_full()).ok_or(NoHugeZero)?;
            if own.is_none() {
                *own = self.alloc(priority);
            }
            // Where there is no memory, another CPU may have got the last block for the same.
            let Some(pfn) = *own else { return cell.try_get().map(shared).ok_or(NoHugeZero) };
            if cell.place(pfn) {
                *own = None;
                return Ok((pfn, Taken::Allocated));
            }
        }
    }

    /// A block of zeros whose record says that it is a zero page, and that the caller alone knows.
    fn alloc(self, priority: Priority) -> Option<Pfn> {
        let request = AllocRequest::ZEROED.with_priority(priority);
        let pfn = self.memory.alloc(Order::HUGE, request)?.into_pfn();
        let is_marked = self.memory.meta_of(pfn).put_to_use(Kind::Zero);
        debug_assert!(is_marked, "{pfn:?} was just allocated");
        Some(pfn)
    }

    /// Puts a reference to the page of a zone. The last one of a dying page frees it.
    fn put(self, zone: usize) {
        if mutant!("zero.reference-kept") {
            return;
        }
        if let Some(pfn) = self.cell(zone).put() {
            self.free(pfn);
        }
    }

    /// Frees a page that only the caller knows, as zero as it was allocated. Returns its frames.
    fn free(self, pfn: Pfn) -> u64 {
        self.debug_assert_zero(pfn);
        if self.memory.meta_of(pfn).relinquish() {
            self.memory.free_block(pfn, Order::HUGE, Init::Zeroed);
        } else {
            self.memory.refuse(pfn);
        }
        Order::HUGE.frames()
    }

    /// Debug check: a huge zero page contains only zeros.
    fn debug_assert_zero(self, pfn: Pfn) {
        if cfg!(all(debug_assertions, not(loom))) && self.is_huge_zero(pfn) {
            let mut bytes = [0; 256];
            for at in (0..Order::HUGE.bytes()).step_by(bytes.len()) {
                let from = PhysAddr(pfn.addr().0 + at as u64);
                // SAFETY: the bytes lie in one frame of a block whose record was just read: it is a huge zero
                // page, where no code has a Rust object.
                unsafe { self.memory.machine.copy_out(from, &mut bytes) };
                assert!(bytes == [0; 256], "the huge zero page was written to");
            }
        }
    }
}

impl<M: Machine> Clone for ZeroPages<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for ZeroPages<'_, M> {}

impl<M: Machine> fmt::Debug for ZeroPages<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (huge, tables) = (self.huge_frames(), self.table_frames());
        write!(f, "{huge} frames of huge zero pages, {tables} of their tables, {:?}", self.options())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/huge_zero.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "../tests/loom_huge_zero.rs"]
mod tests;
