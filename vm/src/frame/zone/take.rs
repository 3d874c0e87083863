//! Allocation: which region a CPU takes from, and what the watermark lets it have.
//!
//! ```text
//!   the region that this CPU has reserved
//!       │ empty; or it would split 2 MiB while another region offers fragments
//!       ├─ the best of those near home that no CPU has reserved: reserved from now on
//!       ├─ any that may have what is wanted, by its hint
//!       ├─ regions have it, and no credit: the zone is settled, and all are asked once more
//!       └─ after all CPUs' caches were drained: every region, whatever hints say
//! ```

use super::Zone;
use super::buddy::are_free;
use super::hint::{Hint, Purpose};
use super::region::{Lists, OwnRegions};
use crate::frame::{FrameTable, Init, Priority};
use crate::machine::Cpu;
use crate::sync::PreemptGuard;
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, Pfn, PfnRange};

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
    purpose: Purpose,
    /// Frames at least.
    least: u64,
    priority: Priority,
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
        let purpose = if order < Order::HUGE { Purpose::Frames } else { Purpose::Blocks };
        let wanted = Wanted { purpose, least: order.frames(), priority };
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
        let wanted = Wanted { purpose: Purpose::Frames, least: 1, priority };
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

    /// Allocates the block of `order`, more than [`Order::MAX`], that starts at `pfn`, if it is free, its
    /// records are written and the watermark allows it. Its regions give their parts one after the other;
    /// a search for the last frames waits for that.
    pub(in crate::frame) fn alloc_run(
        &self,
        table: &FrameTable<'_, C>,
        pfn: Pfn,
        order: Order,
    ) -> Option<Init> {
        let run = PfnRange::new(pfn, pfn.add(order.frames()));
        // A look without locks spares those that are not free.
        are_free(table, self.index, run).then(|| self.take_run(table, run)).flatten()
    }

    /// Takes the blocks of a run, all or none.
    pub(super) fn take_run(&self, table: &FrameTable<'_, C>, run: PfnRange) -> Option<Init> {
        let _runs = self.runs.lock();
        self.settle(table);
        if self.budget.take(run.len(), run.len(), Priority::Normal) == 0 {
            return None;
        }
        let mut whole = None;
        for (at, part) in self.regions.parts(run) {
            let Some(init) = self.edit(table, at, |lists| self.take_part(table, lists, part)) else {
                self.undo_run(table, PfnRange::new(run.start, part.start), run.len(), whole);
                return None;
            };
            let joined = whole.is_none_or(|before| before == init);
            whole = Some(if joined { init } else { Init::Dirty });
        }
        whole
    }

    /// Takes the part of a run that lies in a region. The run is paid for; credit that the region has for
    /// these frames goes back.
    fn take_part(&self, table: &FrameTable<'_, C>, lists: &mut Lists<C>, part: PfnRange) -> Option<Init> {
        let init = lists.buddy.alloc_run(table, part)?;
        let (credit, free) = (lists.credit.get(), lists.buddy.free_frames());
        if credit > free {
            lists.credit.set(free);
            self.budget.add_back(credit - free);
        }
        Some(init)
    }

    /// Frees the part of a run that was taken, and gives back what all of it would have cost.
    fn undo_run(&self, table: &FrameTable<'_, C>, taken: PfnRange, frames: u64, init: Option<Init>) {
        for (at, part) in self.regions.parts(taken) {
            let init = init.unwrap_or(Init::Dirty);
            self.edit(table, at, |lists| lists.buddy.free_range(table, part.start, part.end, init));
        }
        if !mutant!("zone.run-not-paid-back") {
            self.budget.add(frames);
        }
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
        if !self.regions.is_one() && !self.budget.may_allow(wanted.least, wanted.priority) {
            return Err(Refusal::Credit);
        }
        let done = self.ask_hinted(table, wanted, &mut from);
        // For a frame also what was given back, and is too little for a hint; but not while blocks that are
        // deferred give more at once.
        let may_help = match done {
            Ok(_) => false,
            Err(Refusal::Block) => {
                wanted.least == 1 && !self.regions.is_one() && self.deferred.load(Relaxed) == 0
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
        let preempt_off = PreemptGuard::<C>::new();
        let own: &OwnRegions<C> = &self.regions.own().this_cpu(&preempt_off);
        let kept = own.get(wanted.purpose);
        if let Some(at) = kept
            && let Ok(found) = self.edit(table, at, |lists| self.unless_spared(own, wanted, lists, &mut from))
        {
            return Ok(found);
        }
        let mut tried = None;
        for _ in 0..TRIES {
            let chosen = self.regions.choose(wanted.purpose, own).filter(|at| tried != Some(*at));
            let Some(at) = chosen else { break };
            tried = Some(at);
            if let Ok(found) = self.take_over(table, (own, wanted.purpose), at, &mut from) {
                return Ok(found);
            }
        }
        let others = self.regions.that_may_have(wanted.purpose, own.home);
        first_or_worst(others.map(|at| self.edit(table, at, &mut from)))
    }

    /// Takes from this CPU's region, unless that would split a block of 2 MiB while another region offers
    /// fragments.
    fn unless_spared<R>(
        &self,
        own: &OwnRegions<C>,
        wanted: Wanted,
        lists: &mut Lists<C>,
        from: &mut impl FnMut(&mut Lists<C>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let splits = wanted.purpose == Purpose::Frames && lists.buddy.fragments() < wanted.least;
        if splits && self.regions.offers_fragments(own) && !mutant!("zone.fragments-not-first") {
            return Err(Refusal::Block);
        }
        from(lists)
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
