//! How many huge pages the hugetlb pool has: taken from the zones, and given back.

use super::{HugetlbCounts, HugetlbPool, index_of};
use crate::frame::zone::ZoneSearch;
use crate::frame::{FrameState, Init, Priority, Zone};
use crate::machine::Machine;
use crate::units::{Order, PageSize, Pfn};
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

impl<M: Machine> HugetlbPool<'_, M> {
    /// Makes the pool of a size one of `pages` huge pages, as far as that can be, and returns what it has
    /// then. (Linux: a write to `nr_hugepages`.)
    ///
    /// A larger pool is taken from all nodes alike, by a job for each node whose helpers are on it, and what
    /// one node lacks from the others. Pages of 1 GiB need as many free frames in a row, which they find
    /// early after the start only. A smaller one gives back what is free and not reserved; what is in use is
    /// *surplus*, and leaves the pool when it comes back.
    ///
    /// Called with no lock held and outside of any read section. Of several callers at once each takes or
    /// frees what is lacking or too much when it begins.
    pub fn resize(self, size: PageSize, pages: u64, workers: Option<&WorkerPool<'_, M>>) -> HugetlbCounts {
        let lacking = self.keep_surplus(size, pages);
        if lacking > 0 {
            self.fill_nodes(size, lacking, workers);
            // What a node lacks, from the others; with what the CPUs' caches keep apart.
            if self.lacking(size, pages) > 0 {
                self.memory.drain();
            }
            for zone in self.memory.zones {
                while self.lacking(size, pages) > 0 && self.fill_one(size, zone) {}
            }
        } else {
            // In this order: what comes back from now on finds that it is to leave.
            let is_late = mutant!("pool.surplus-noted-late");
            self.note_surplus(size, pages, is_late);
            self.shed_surplus(size);
            if is_late {
                self.note_surplus(size, pages, false);
            }
        }
        self.counts(size)
    }

    /// Of what was to leave the pool as many stay as are wanted now. Returns how many are lacking then.
    fn keep_surplus(self, size: PageSize, pages: u64) -> u64 {
        if let Some((mut state, _)) = self.lock(size) {
            state.surplus -= state.surplus.min(pages.saturating_sub(state.persistent()));
        }
        self.lacking(size, pages)
    }

    fn lacking(self, size: PageSize, pages: u64) -> u64 {
        self.lock(size).map_or(0, |(state, _)| pages.saturating_sub(state.persistent()))
    }

    /// Takes `nr` huge pages, as many from each node.
    fn fill_nodes(self, size: PageSize, nr: u64, workers: Option<&WorkerPool<'_, M>>) {
        let nr_zones = self.memory.zones.len() as u64;
        let share = |at: u64| {
            let most = self.memory.zones[at as usize].managed() / size.pages();
            most.min(nr / nr_zones + u64::from(at < nr % nr_zones))
        };
        let fill = |at: u64, workers: Option<&WorkerPool<'_, M>>| {
            let zone = &self.memory.zones[at as usize];
            let part = |chunk: &Chunk<'_>| {
                let _has_all = chunk.range().all(|_| self.fill_one(size, zone));
                Ok::<(), Infallible>(())
            };
            let Some(workers) = workers.filter(|_| share(at) > 1) else {
                let _has_all = (0..share(at)).all(|_| self.fill_one(size, zone));
                return;
            };
            let job = Job::new(0..share(at), part).min_chunk(PAGES_AT_ONCE);
            let _done = workers.run(&job.on_nodes(zone.helper_nodes(self.memory.machine)));
        };
        let Some(pool) = workers.filter(|_| nr_zones > 1) else {
            return (0..nr_zones).for_each(|at| fill(at, workers));
        };
        let node = |chunk: &Chunk<'_>| {
            chunk.range().for_each(|at| fill(at, workers));
            Ok::<(), Infallible>(())
        };
        let _done = pool.run(&Job::new(0..nr_zones, node));
    }

    /// Takes a huge page from a node. False where it has none.
    fn fill_one(self, size: PageSize, zone: &Zone<'_, M::Cpu>) -> bool {
        let (Some(index), order) = (index_of(size), size.order()) else { return false };
        if self.memory.mishap.strikes() {
            return false;
        }
        let block = if order > Order::MAX { self.find_run(zone, order) } else { self.take_one(zone, order) };
        let Some((pfn, init)) = block else { return false };
        self.memory.caches.get_cpu().count_uncached(order.frames());
        self.memory.meta_of(pfn).set_state(FrameState::hugetlb(order, init));
        if let Some((mut state, _)) = self.lock(size) {
            state.total += 1;
            state.free += 1;
            self.push(zone.hugetlb(index), (pfn, size), init);
        }
        true
    }

    fn take_one(self, zone: &Zone<'_, M::Cpu>, order: Order) -> Option<(Pfn, Init)> {
        loop {
            let found = zone.alloc(&self.memory.table, order, Priority::Normal, ZoneSearch::Hinted);
            if found.is_some() || !self.memory.deferred().initialise_on_demand(zone, order, Priority::Normal)
            {
                return found;
            }
        }
    }

    /// Takes a block that is larger than any the zone has: as many blocks in a row, all free. Those that are
    /// deferred are passed over.
    fn find_run(self, zone: &Zone<'_, M::Cpu>, order: Order) -> Option<(Pfn, Init)> {
        let is_zones = |at: Pfn| core::ptr::eq(self.memory.zone_of(at), zone);
        let ranges = self.memory.zone_ranges.iter().map(|range| range.frames);
        ranges.filter(|frames| is_zones(frames.start)).find_map(|frames| {
            let first = frames.start.0.next_multiple_of(order.frames());
            let runs = (first..frames.end.0).step_by(order.frames() as usize).map(Pfn);
            let mut whole = runs.take_while(|run| run.add(order.frames()) <= frames.end);
            whole.find_map(|run| {
                let mut heads = (0..order.frames()).step_by(Order::MAX.frames() as usize);
                let is_written = heads.all(|head| self.memory.meta(run.add(head)).is_some());
                let init = if is_written { zone.alloc_run(&self.memory.table, run, order) } else { None };
                Some((run, init?))
            })
        })
    }

    /// Takes a huge page out of the pool that is free and not reserved, from the node that has most of them,
    /// if one is to leave.
    fn take_surplus(self, size: PageSize) -> Option<Pfn> {
        let (mut state, index) = self.lock(size)?;
        if state.free == 0 || state.available() == 0 || state.surplus == 0 {
            return None;
        }
        let fullest = self.memory.zones.iter().max_by_key(|zone| zone.hugetlb(index).len());
        let pfn = self.pop(fullest?.hugetlb(index))?;
        state.free -= 1;
        state.surplus -= 1;
        state.total -= 1;
        Some(pfn)
    }

    /// Gives back what is free, reserved for no entry, and was to leave the pool.
    pub(super) fn shed_surplus(self, size: PageSize) {
        while let Some(pfn) = self.take_surplus(size) {
            self.release(pfn, size.order(), self.memory.meta_of(pfn).state().init());
        }
    }

    /// What the pool has beyond `pages` is to leave it; of `only_free`, as much of it as is free.
    fn note_surplus(self, size: PageSize, pages: u64, only_free: bool) {
        if let Some((mut state, _)) = self.lock(size) {
            let beyond = state.total.saturating_sub(pages);
            state.surplus = if only_free { beyond.min(state.free) } else { beyond };
        }
    }
}

/// Huge pages that are worth a helper.
const PAGES_AT_ONCE: u64 = 8;
