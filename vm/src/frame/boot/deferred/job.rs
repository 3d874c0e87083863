//! Initialisation of everything deferred, by jobs: one for each node.

use super::claims::{SECTION_FRAMES, blocks_in, sections_of};
use super::{DeferredInit, DeferredRange};
use crate::frame::boot::setup::MAX_ZONES;
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::units::{NodeId, PfnRange};
use crate::work::{Chunk, Failed, Job, Spent, WorkerPool};
use core::convert::Infallible;
use core::ops::Range;

/// Blocks that a helper claims at once: 256 KiB of records, some 25 µs with preemption off.
const BLOCKS_AT_ONCE: u32 = 8;

/// Jobs that run at the same time: each keeps its state on the caller's stack.
const JOBS_AT_ONCE: usize = 8;

/// What [`DeferredInit::initialise`] was asked for.
struct InitRequest<'a, M: Machine> {
    workers: &'a WorkerPool<'a, M>,
    /// The most helpers of a node's job.
    helpers: u32,
    stop_if: &'a (dyn Fn() -> bool + Sync),
    done: &'a (dyn Fn(NodeInitReport) + Sync),
}

/// Cost of the initialisation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInitReport {
    /// The node.
    pub node: NodeId,
    /// Deferred frames of the node at the beginning of the job; allocations may have initialised some of
    /// them meanwhile.
    pub frames: u64,
    /// From the beginning of the job until its last records were written.
    pub took_ns: u64,
    /// Number of helpers, and their time.
    pub spent: Spent,
}

impl<'m, M: Machine> DeferredInit<'m, M> {
    /// Initialises all deferred records and frees their frames to the zones: a job for each node, several at
    /// the same time, with at most `helpers` helpers each. Calls `done` for each node. Allocations may go on
    /// meanwhile; a block that one of them has claimed may still be on its way to its zone when this returns.
    ///
    /// The records of a node are written by the CPUs of that node, as long as these come: the caller works
    /// first on its own node, and on another one only where no CPU there begins, or none is left.
    ///
    /// # Errors
    /// Where a job was cancelled by `stop_if`, or a helper panicked. The remaining blocks stay deferred.
    pub fn initialise(
        self,
        workers: &WorkerPool<'_, M>,
        helpers: u32,
        stop_if: &(dyn Fn() -> bool + Sync),
        done: &(dyn Fn(NodeInitReport) + Sync),
    ) -> Result<(), Failed<Infallible>> {
        let request = InitRequest { workers, helpers, stop_if, done };
        // The zone of this CPU comes last: the innermost job, on which the caller works first.
        let (nr_zones, home) = (self.memory.zones.len(), self.memory.distances.local_zone(M::Cpu::id()));
        let zones: [u8; MAX_ZONES] = core::array::from_fn(|turn| ((home + 1 + turn) % nr_zones.max(1)) as u8);
        zones[..nr_zones].rchunks(JOBS_AT_ONCE).try_for_each(|zones| self.initialise_zones(&request, zones))
    }

    /// Runs a job for each of the zones, all at the same time: each is published before the ones after it are
    /// run, and the caller comes back to it when these are done.
    fn initialise_zones(self, request: &InitRequest<'_, M>, zones: &[u8]) -> Result<(), Failed<Infallible>> {
        let Some((&zone, rest)) = zones.split_first() else { return Ok(()) };
        let mut result = Ok(());
        let report = self.initialise_zone(request, zone, || result = self.initialise_zones(request, rest))?;
        (request.done)(report);
        result
    }

    /// Runs the job of a zone; calls `first` when helpers can join already.
    fn initialise_zone(
        self,
        request: &InitRequest<'_, M>,
        zone_index: u8,
        first: impl FnOnce(),
    ) -> Result<NodeInitReport, Failed<Infallible>> {
        let zone = &self.memory.zones[zone_index as usize];
        let (frames, before) = (zone.deferred(), M::Cpu::now_ns());
        // Relaxed: read after all chunks have ended.
        let ended = AtomicU64::<M::Cpu>::new(before);
        let work = |chunk: &Chunk<'_>| {
            self.initialise_sections(zone_index, chunk.range());
            let now_ns = M::Cpu::now_ns();
            let _later_already = ended.update(Relaxed, Relaxed, |at| (at < now_ns).then_some(now_ns));
            Ok::<(), Infallible>(())
        };
        let helpers_from = zone.helper_nodes(self.memory.machine);
        let is_far = !helpers_from.contains(self.memory.machine.node_of(M::Cpu::id()));
        let job = Job::new(self.span_of(zone_index), work)
            .align(SECTION_FRAMES)
            .min_chunk(SECTION_FRAMES)
            .max_helpers(request.helpers)
            .on_nodes(helpers_from)
            .for_helpers(is_far && !mutant!("deferred.far-cpu-writes"))
            .stop_if(request.stop_if);
        let spent = request.workers.run_beside(&job, first)?;
        Ok(NodeInitReport { node: zone.node(), frames, took_ns: ended.load(Relaxed) - before, spent })
    }

    /// The deferred ranges of a zone, by ascending address.
    fn ranges_of(self, zone: u8) -> impl Iterator<Item = &'m DeferredRange<M::Cpu>> {
        self.memory.deferred.ranges.iter().filter(move |range| range.zone == zone)
    }

    /// Whole sections, from the first that the zone has deferred blocks in to the last.
    fn span_of(self, zone: u8) -> Range<u64> {
        let mut ranges = self.ranges_of(zone);
        let Some(first) = ranges.next() else { return 0..0 };
        let last = ranges.last().unwrap_or(first).frames;
        let sections = sections_of(PfnRange::new(first.frames.start, last.end));
        sections.start * SECTION_FRAMES..sections.end * SECTION_FRAMES
    }

    /// Initialises the deferred blocks of a zone that lie in some whole sections.
    fn initialise_sections(self, zone: u8, frames: Range<u64>) {
        let sections = frames.start / SECTION_FRAMES..frames.end.div_ceil(SECTION_FRAMES);
        for range in self.ranges_of(zone) {
            let own = sections_of(range.frames);
            for section in own.start.max(sections.start)..own.end.min(sections.end) {
                if blocks_in(section, range.frames) != 0 {
                    while self.initialise_blocks(range, section, BLOCKS_AT_ONCE) > 0 {
                        M::Cpu::relax();
                    }
                }
            }
        }
    }
}
