//! Initialisation of everything deferred, by jobs: one for each node.

use super::DeferredRange;
use super::claims::{SECTION_FRAMES, blocks_in, sections_of};
use crate::frame::Memory;
use crate::machine::{Cpu, Machine};
use crate::units::{CpuId, NodeId, NodeMask, PfnRange};
use crate::work::{Chunk, Failed, Job, Spent, WorkerPool};
use core::convert::Infallible;
use core::ops::Range;

/// Blocks that a helper claims at once: 256 KiB of records, some 25 µs with preemption off.
const BLOCKS_AT_ONCE: u32 = 8;

/// Cost of the initialisation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInitReport {
    /// The node.
    pub node: NodeId,
    /// Deferred frames of the node at the beginning of the job; allocations may have initialised some of
    /// them meanwhile.
    pub frames: u64,
    /// From the beginning of the job to its end.
    pub took_ns: u64,
    /// Number of helpers, and their time.
    pub spent: Spent,
}

impl<M: Machine> Memory<'_, M> {
    /// Initialises all deferred records and frees their frames to the zones: a job for each node, all at the
    /// same time, with at most `helpers` helpers each. Calls `done` for each node. Allocations may go on
    /// meanwhile; a block that one of them has claimed may still be on its way to its zone when this returns.
    ///
    /// # Errors
    /// Where a job was cancelled by `stop_if`, or a helper panicked. The remaining blocks stay deferred.
    pub fn initialise(
        &self,
        workers: &WorkerPool<'_, M>,
        helpers: u32,
        stop_if: &(dyn Fn() -> bool + Sync),
        done: &(dyn Fn(NodeInitReport) + Sync),
    ) -> Result<(), Failed<Infallible>> {
        let node = |chunk: &Chunk<'_>| {
            let each = |zone| self.initialise_zone(workers, zone, helpers, stop_if).map(done);
            chunk.range().try_for_each(each)
        };
        let job = Job::new(0..self.zones.len() as u64, node).stop_if(stop_if);
        match workers.run(&job) {
            Ok(_) => Ok(()),
            Err(Failed::Error(inner)) => Err(inner),
            Err(Failed::Panicked) => Err(Failed::Panicked),
            Err(Failed::Cancelled) => Err(Failed::Cancelled),
        }
    }

    fn initialise_zone(
        &self,
        workers: &WorkerPool<'_, M>,
        zone_index: u64,
        helpers: u32,
        stop_if: &(dyn Fn() -> bool + Sync),
    ) -> Result<NodeInitReport, Failed<Infallible>> {
        let zone = &self.zones[zone_index as usize];
        let (frames, before) = (zone.deferred(), M::Cpu::now_ns());
        let work = |chunk: &Chunk<'_>| {
            self.initialise_sections(zone_index as u8, chunk.range());
            Ok::<(), Infallible>(())
        };
        let job = Job::new(self.deferred_span(zone_index as u8), work)
            .align(SECTION_FRAMES)
            .min_chunk(SECTION_FRAMES)
            .max_helpers(helpers)
            .on_nodes(self.helper_nodes(zone.node()))
            .stop_if(stop_if);
        let spent = workers.run(&job)?;
        Ok(NodeInitReport { node: zone.node(), frames, took_ns: M::Cpu::now_ns() - before, spent })
    }

    /// The nodes whose CPUs may help: the zone's own where it has CPUs, else all (memory behind a link).
    pub(in crate::frame) fn helper_nodes(&self, node: NodeId) -> NodeMask {
        let has_cpu = (0..self.machine.nr_cpus()).any(|cpu| self.machine.node_of(CpuId(cpu)) == node);
        let own = NodeMask::of(node);
        if has_cpu && own != NodeMask::EMPTY { own } else { NodeMask::ALL }
    }

    /// The deferred ranges of a zone, by ascending address.
    fn ranges_of(&self, zone: u8) -> impl Iterator<Item = &DeferredRange<M::Cpu>> {
        self.deferred.ranges.iter().filter(move |range| range.zone == zone)
    }

    /// Whole sections, from the first that the zone has deferred blocks in to the last.
    fn deferred_span(&self, zone: u8) -> Range<u64> {
        let mut ranges = self.ranges_of(zone);
        let Some(first) = ranges.next() else { return 0..0 };
        let last = ranges.last().unwrap_or(first).frames;
        let sections = sections_of(PfnRange::new(first.frames.start, last.end));
        sections.start * SECTION_FRAMES..sections.end * SECTION_FRAMES
    }

    /// Initialises the deferred blocks of a zone that lie in some whole sections.
    fn initialise_sections(&self, zone: u8, frames: Range<u64>) {
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
