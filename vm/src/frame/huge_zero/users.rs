//! What one space has of the huge zero pages: at most one reference to each.

use crate::frame::{Memory, Priority};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::Pfn;
use core::fmt;

/// There is no huge zero page, and no memory for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoHugeZero;

/// How a reference was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The page was there.
    Shared,
    /// It was allocated for this.
    Allocated,
}

/// The references of a space, or of anything else that ends as a whole. They are put by
/// [`put_all`](Self::put_all); dropped without, they are kept for good, and the pages with them.
pub(crate) struct HugeZeroUse<C: Cpu> {
    /// A bit for each zone, set where there is a reference to its page. Set with release after the reference
    /// was taken, and read with acquire before the page is used: the page is zero, its record written.
    taken: AtomicU64<C>,
}

impl<C: Cpu> HugeZeroUse<C> {
    /// No reference.
    pub const fn new() -> Self {
        Self { taken: AtomicU64::new(0) }
    }

    /// The page to map on this CPU, if there is a reference to it: one load of the space's own line, one of
    /// the cell's, which changes when spaces begin and end to use it.
    #[inline(always)]
    pub fn page<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>) -> Option<Pfn> {
        let (zero, at) = (memory.zero_pages(), memory.zero_pages().local());
        if self.has(at) { zero.cell(at).word().page() } else { None }
    }

    /// Takes a reference to the page to map on this CPU, unless there is one. Where there is no page, one is
    /// allocated as `alloc` says; `None`: not at all, and then this waits for nothing and allocates nothing.
    ///
    /// # Errors
    /// There is none, and no memory for one.
    pub fn take<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        alloc: Option<Priority>,
    ) -> Result<(Pfn, Taken), NoHugeZero> {
        if let Some(pfn) = self.page(memory) {
            return Ok((pfn, Taken::Shared));
        }
        let at = memory.zero_pages().local();
        let got = memory.zero_pages().get(at, alloc)?;
        self.note(memory, at);
        Ok(got)
    }

    /// Takes a reference to the page that begins at `pfn`, unless there is one. The caller keeps the page
    /// there: another space has a reference meanwhile. Waits for nothing.
    ///
    /// # Errors
    /// Too many spaces use it.
    pub fn take_page<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, pfn: Pfn) -> Result<(), NoHugeZero> {
        let zero = memory.zero_pages();
        let is_it = |&at: &usize| zero.cell(at).word().page() == Some(pfn);
        let at = (0..memory.zones.len()).find(is_it).ok_or(NoHugeZero)?;
        if !self.has(at) {
            zero.cell(at).try_get().ok_or(NoHugeZero)?;
            self.note(memory, at);
        }
        Ok(())
    }

    /// Whether there is a reference to the page that begins at `pfn`.
    pub fn holds<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, pfn: Pfn) -> bool {
        let is_it = |at| self.has(at) && memory.zero_pages().cell(at).word().page() == Some(pfn);
        (0..memory.zones.len()).any(is_it)
    }

    /// Puts all references. No entry maps the pages any more, and no TLB holds a translation.
    pub fn put_all<M: Machine<Cpu = C>>(&mut self, memory: &Memory<'_, M>) {
        let taken = core::mem::take(self.taken.get_mut());
        (0..memory.zones.len()).filter(|at| taken >> at & 1 == 1).for_each(|at| memory.zero_pages().put(at));
    }

    fn has(&self, at: usize) -> bool {
        self.taken.load(Acquire) >> at & 1 == 1
    }

    /// Notes a reference that was just got. Where another thread of the space was faster, its reference stays
    /// and this one is put.
    fn note<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, at: usize) {
        let before = self.taken.fetch_or(1 << at, AcqRel);
        if before >> at & 1 == 1 && !mutant!("zero.second-reference-kept") {
            memory.zero_pages().put(at);
        }
    }
}

impl<C: Cpu> fmt::Debug for HugeZeroUse<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "huge zero pages of zones {:#b}", self.taken.load(Relaxed))
    }
}
