//! Allocation: which region a CPU takes from, and what the watermark lets it have.
//!
//! ```text
//!   the region that this CPU has reserved: its fragments of less than 2 MiB
//!       │ none that suit
//!       ├─ the fullest with fragments: of its part, or for a block of a few more
//!       ├─ its own again: a block of 2 MiB is split; empty
//!       ├─ the best of those near home that no CPU has reserved: reserved from now on
//!       ├─ any that may have what is wanted, by its hint
//!       ├─ regions have it, and no credit: the zone is settled, and all are asked once more
//!       └─ after all CPUs' caches were drained: every region, whatever hints say
//! ```

use super::Zone;
use super::hint::{Hint, Purpose};
use super::region::{Lists, OwnRegions};
use crate::frame::{FrameTable, Init, Priority};
use crate::machine::Cpu;
use crate::sync::PreemptGuard;
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, Pfn};

/// Which regions are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frame) enum ZoneSearch {
    /// Those that may have what is wanted, by their hints.
    Hinted,
    /// All of them, for the last frames.
    Every,
}

/// Why a region gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    /// It has no such block.
    Block,
    /// It has one, and no credit for it.
    Credit,
}

/// What is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    /// Of a batch, that of a frame.
    order: Order,
    /// Of a batch: so many frames must be in fragments, or it would split a block of 2 MiB.
    fragments: u64,
    priority: Priority,
}

impl Wanted {
    fn purpose(self) -> Purpose {
        if self.order < Order::HUGE { Purpose::Frames } else { Purpose::Blocks }
    }
}

/// Regions that a CPU tries to reserve before it takes from any.
const TRIES: usize = 4;

impl<C: Cpu> Zone<'_, C> {
    /// Allocates a block, where the watermark allows it.
    pub(in crate::frame) fn alloc(
        &self,
        table: &FrameTable<'_, C>,
        order: Order,
        priority: Priority,
        search: ZoneSearch,
    ) -> Option<(Pfn, Init)> {
        let wanted = Wanted { order, fragments: 1, priority };
        let from = |lists: &mut Lists<C>| {
            let found = lists.buddy.smallest(order, Order::MAX).ok_or(Refusal::Block)?;
            if self.afford(lists, order.frames(), priority) == 0 {
                return Err(Refusal::Credit);
            }
            lists.buddy.split(table, found, order).ok_or(Refusal::Block)
        };
        let found = self.ask(table, wanted, search, from);
        found.inspect_err(|refusal| self.note_lack(order, *refusal)).ok()
    }

    /// Allocates up to `frames.len()` frames for a CPU's cache, packed. Frames of the reserve are allocated
    /// one by one, so that the cache does not offer them to requests of lower priority. Returns how many.
    pub(in crate::frame) fn alloc_batch(
        &self,
        table: &FrameTable<'_, C>,
        frames: &mut [u64],
        priority: Priority,
    ) -> usize {
        let fragments = frames.len().div_ceil(2) as u64;
        let wanted = Wanted { order: Order::BASE, fragments, priority };
        let from = |lists: &mut Lists<C>| {
            let most = lists.buddy.free_frames().min(frames.len() as u64);
            if most == 0 {
                return Err(Refusal::Block);
            }
            match self.afford_for_cache(lists, most, priority) {
                0 => Err(Refusal::Credit),
                most => {
                    let taken = lists.buddy.alloc_batch(table, &mut frames[..most as usize]);
                    if (taken as u64) < most {
                        self.earn(lists, most - taken as u64);
                    }
                    Ok(taken)
                }
            }
        };
        self.ask(table, wanted, ZoneSearch::Hinted, from).unwrap_or(0)
    }

    /// Whether a block of `order` or more was free, or about to be initialised, a moment ago. Takes no lock.
    /// Relaxed: a hint, after which the caller does without a block or asks for one.
    pub(in crate::frame) fn may_have_block(&self, order: Order) -> bool {
        self.largest_block.load(Relaxed) > u64::from(order.0) || self.deferred.load(Relaxed) > 0
    }

    /// How many frames a request of this priority may still have, deferred ones among them, in regions that
    /// this looks at only where few are unassigned.
    pub(super) fn is_allowed(&self, table: &FrameTable<'_, C>, frames: u64, priority: Priority) -> bool {
        self.budget.allowed(priority) >= frames || {
            self.settle(table);
            self.budget.allowed(priority) >= frames
        }
    }

    /// Collects what was given back and all credit: the budget is exact from then on, until there is plenty.
    pub(super) fn settle(&self, table: &FrameTable<'_, C>) {
        self.budget.be_exact();
        for at in 0..self.regions.len() {
            self.edit(table, at, |lists| {
                let credit = lists.credit.get();
                if credit > 0 && !mutant!("zone.credit-not-collected") {
                    lists.credit.set(0);
                    self.budget.add_back(credit);
                }
            });
        }
    }

    /// Pays for `frames` frames, or for none: from the region's credit, which grows by what it has.
    fn afford(&self, lists: &mut Lists<C>, frames: u64, priority: Priority) -> u64 {
        match self.credit(lists, frames) {
            None => self.budget.take(frames, frames, priority),
            Some(credit) if credit < frames => 0,
            Some(credit) => {
                lists.credit.set(credit - frames);
                frames
            }
        }
    }

    /// As [`afford`](Self::afford), of at most `most` frames for a CPU's cache.
    fn afford_for_cache(&self, lists: &mut Lists<C>, most: u64, priority: Priority) -> u64 {
        match self.credit(lists, most) {
            None => self.budget.take_for_cache(most, priority),
            Some(credit) => {
                let taken = credit.min(most);
                lists.credit.set(credit - taken);
                taken
            }
        }
    }

    /// The region's credit, after it grew where it was less than `wanted`. `None` where the zone is settled.
    fn credit(&self, lists: &mut Lists<C>, wanted: u64) -> Option<u64> {
        if self.budget.is_exact() {
            return None;
        }
        let credit = lists.credit.get();
        if credit >= wanted {
            return Some(credit);
        }
        let grown = credit + self.budget.assign(lists.buddy.free_frames() - credit);
        lists.credit.set(grown);
        Some(grown)
    }

    /// Asks regions one after the other until one gives.
    fn ask<R>(
        &self,
        table: &FrameTable<'_, C>,
        wanted: Wanted,
        search: ZoneSearch,
        mut from: impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        if search == ZoneSearch::Every && !mutant!("zone.last-search-trusts-hints") {
            return self.ask_every(table, from);
        }
        if !self.regions.is_one() && !self.budget.may_allow(wanted.order.frames(), wanted.priority) {
            return Err(Refusal::Credit);
        }
        let done = self.ask_hinted(table, wanted, &mut from);
        // For a frame also what was given back, and is too little for a hint; but not while blocks that are
        // deferred give more at once.
        let may_help = match done {
            Ok(_) => false,
            Err(Refusal::Block) => {
                wanted.order == Order::BASE && !self.regions.is_one() && self.deferred.load(Relaxed) == 0
            }
            Err(Refusal::Credit) => true,
        };
        if !may_help || wanted.priority == Priority::NoWait || self.budget.is_exact() {
            return done;
        }
        self.settle(table);
        self.ask_hinted(table, wanted, from)
    }

    /// Asks every region. No run is on its way between them meanwhile. Where the zone ceases to be exact
    /// between two regions, more frames were freed than that takes, and all are asked again.
    fn ask_every<R>(
        &self,
        table: &FrameTable<'_, C>,
        mut from: impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let _runs = self.runs.lock();
        loop {
            self.settle(table);
            let found = first_or_worst((0..self.regions.len()).map(|at| self.edit(table, at, &mut from)));
            if self.budget.is_exact() || !matches!(found, Err(Refusal::Credit)) {
                return found;
            }
        }
    }

    /// Asks the regions that may have what is wanted, by their hints.
    fn ask_hinted<R>(
        &self,
        table: &FrameTable<'_, C>,
        wanted: Wanted,
        mut from: impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        if self.regions.is_one() {
            return self.edit(table, 0, from);
        }
        self.ask_regions(table, wanted, &mut from)
    }

    /// As [`ask_hinted`](Self::ask_hinted), of several regions. Not inlined, so that one region costs less.
    #[inline(never)]
    fn ask_regions<R>(
        &self,
        table: &FrameTable<'_, C>,
        wanted: Wanted,
        from: &mut impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let preempt_off = PreemptGuard::<C>::new();
        let own: &OwnRegions<C> = &self.regions.own().this_cpu(&preempt_off);
        if let Some(found) = self.ask_fragments(table, wanted, own, from) {
            return Ok(found);
        }
        if let Some(at) = own.get(wanted.purpose())
            && let Ok(found) = self.edit(table, at, &mut *from)
        {
            return Ok(found);
        }
        let mut tried = None;
        for _ in 0..TRIES {
            let chosen = self.regions.choose(wanted.order, own).filter(|at| tried != Some(*at));
            let Some(at) = chosen else { break };
            tried = Some(at);
            if let Ok(found) = self.take_from(table, wanted, own, at, &mut *from) {
                return Ok(found);
            }
        }
        let others = self.regions.that_may_have(wanted.purpose(), own.home);
        first_or_worst(others.map(|at| self.edit(table, at, &mut *from)))
    }

    /// Takes, of less than 2 MiB, what splits no such block: from this CPU's region, or else from the fullest
    /// that has fragments. For frames that is this CPU's from then on. A block is one of many sizes, and its
    /// CPU goes on where it was.
    fn ask_fragments<R>(
        &self,
        table: &FrameTable<'_, C>,
        wanted: Wanted,
        own: &OwnRegions<C>,
        from: &mut impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Option<R> {
        if wanted.purpose() == Purpose::Blocks || mutant!("zone.fragments-not-first") {
            return None;
        }
        let mut from = |lists: &mut Lists<C>| match lists.buddy.has_fragments(wanted.order, wanted.fragments)
        {
            true => from(lists),
            false => Err(Refusal::Block),
        };
        if let Some(at) = own.get(wanted.purpose())
            && let Ok(found) = self.edit(table, at, &mut from)
        {
            return Some(found);
        }
        // A second one, as the first may have no credit for what it has.
        let mut tried = None;
        (0..2).find_map(|_| {
            let at = self.regions.with_fragments(wanted.order, own, tried)?;
            tried = Some(at);
            self.take_from(table, wanted, own, at, &mut from).ok()
        })
    }

    /// Takes from a region that no CPU has reserved. It is this CPU's from then on; but not for one block of
    /// less than 2 MiB, of which there are many sizes: the CPU goes on where it was.
    fn take_from<R>(
        &self,
        table: &FrameTable<'_, C>,
        wanted: Wanted,
        own: &OwnRegions<C>,
        at: usize,
        from: &mut impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let is_one_block = wanted.purpose() == Purpose::Frames && wanted.order > Order::BASE;
        if is_one_block && own.get(wanted.purpose()).is_some() {
            return self.edit(table, at, from);
        }
        self.take_over(table, (own, wanted.purpose()), at, from)
    }

    /// Takes from a region that no CPU has reserved, which is this CPU's from then on.
    fn take_over<R>(
        &self,
        table: &FrameTable<'_, C>,
        (own, purpose): (&OwnRegions<C>, Purpose),
        at: usize,
        from: &mut impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        self.regions.hint(at).filter(|hint| hint.reserve()).ok_or(Refusal::Block)?;
        let found = self.edit(table, at, from).inspect_err(|_| self.leave(table, at))?;
        if let Some(before) = own.replace(purpose, Some(at)) {
            self.leave(table, before);
        }
        Ok(found)
    }

    /// Gives a region up that the calling CPU has reserved, and collects what was given back to it meanwhile:
    /// its hint still says that there is much.
    fn leave(&self, table: &FrameTable<'_, C>, at: usize) {
        self.regions.hint(at).into_iter().for_each(Hint::give_up);
        self.edit(table, at, |_| ());
    }

    /// The calling CPU goes offline: other CPUs may reserve its regions.
    pub(in crate::frame) fn leave_all(&self, table: &FrameTable<'_, C>) {
        if self.regions.is_one() {
            return;
        }
        let preempt_off = PreemptGuard::<C>::new();
        let own = self.regions.own().this_cpu(&preempt_off);
        let kept = [Purpose::Frames, Purpose::Blocks].map(|purpose| own.replace(purpose, None));
        kept.into_iter().flatten().for_each(|at| self.leave(table, at));
    }

    /// After all regions that might have a block of this order had none: no fault asks for one until there
    /// is.
    fn note_lack(&self, order: Order, refusal: Refusal) {
        let (largest, lack) = (self.largest_block.load(Relaxed), u64::from(order.0));
        if refusal == Refusal::Block && largest > lack && !self.regions.is_one() {
            let _changed_meanwhile = self.largest_block.compare_exchange(largest, lack, Relaxed, Relaxed);
        }
    }
}

/// The first that was found, or why there was none.
fn first_or_worst<R>(all: impl Iterator<Item = Result<R, Refusal>>) -> Result<R, Refusal> {
    let mut worst = Refusal::Block;
    for found in all {
        match found {
            Ok(found) => return Ok(found),
            Err(refusal) => worst = worst.max(refusal),
        }
    }
    Err(worst)
}
