//! All that waits, written by jobs: one for each node.

use super::sections::{SECTION_FRAMES, blocks_in, sections_of};
use crate::frame::Memory;
use crate::machine::{Cpu, Machine};
use crate::units::{CpuId, NodeId, NodeMask, PfnRange};
use crate::work::{Chunk, Failed, Job, Spent, WorkerPool};
use core::convert::Infallible;
use core::ops::Range;

/// Blocks that a helper has at once: 256 KiB of records, some 25 µs with preemption off.
const BLOCKS_AT_ONCE: u32 = 8;

/// What the initialisation of a node took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInitReport {
    /// Whose memory it is.
    pub node: NodeId,
    /// Frames that the node was waiting for at the beginning of the job; growth may have brought some of
    /// them.
    pub frames: u64,
    /// From the beginning of the job to its end.
    pub took_ns: u64,
    /// What helpers did.
    pub spent: Spent,
}

impl<M: Machine> Memory<'_, M> {
    /// Writes the records of everything that waits, and gives the frames to their zones: a job for each node,
    /// side by side, with at most `helpers` helpers each. Tells `done` of each node. Allocations may go on
    /// meanwhile; a block that one of them is about to bring when this returns is given to its zone by it.
    ///
    /// # Errors
    /// Where a job was given up, by `stop_if` or because a helper panicked. What is left then waits as
    /// before.
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
        let (frames, before) = (zone.waiting(), M::Cpu::now_ns());
        let work = |chunk: &Chunk<'_>| {
            self.settle_all(zone_index as u8, chunk.range());
            Ok::<(), Infallible>(())
        };
        let job = Job::new(self.reach(zone_index as u8), work)
            .align(SECTION_FRAMES)
            .min_chunk(SECTION_FRAMES)
            .max_helpers(helpers)
            .on_nodes(self.helpers_of(zone.node()))
            .stop_if(stop_if);
        let spent = workers.run(&job)?;
        Ok(NodeInitReport { node: zone.node(), frames, took_ns: M::Cpu::now_ns() - before, spent })
    }

    /// The node's CPUs help; where it has none, as memory behind a link has, anybody's.
    fn helpers_of(&self, node: NodeId) -> NodeMask {
        let has_cpu = (0..self.machine.nr_cpus()).any(|cpu| self.machine.node_of(CpuId(cpu)) == node);
        let own = NodeMask::of(node);
        if has_cpu && own != NodeMask::EMPTY { own } else { NodeMask::ALL }
    }

    /// From the first section that the zone has blocks in, to the last.
    fn reach(&self, zone: u8) -> Range<u64> {
        let mut mine = self.deferred.stretches.iter().filter(|stretch| stretch.plan.zone == zone);
        let Some(first) = mine.next() else { return 0..0 };
        let last = mine.last().unwrap_or(first).plan.frames;
        let sections = sections_of(PfnRange::new(first.plan.frames.start, last.end));
        sections.start * SECTION_FRAMES..sections.end * SECTION_FRAMES
    }

    /// Settles what of a zone waits in some whole sections.
    fn settle_all(&self, zone: u8, frames: Range<u64>) {
        let sections = frames.start / SECTION_FRAMES..frames.end.div_ceil(SECTION_FRAMES);
        let mine = self.deferred.stretches.iter().filter(|stretch| stretch.plan.zone == zone);
        for stretch in mine {
            let own = sections_of(stretch.plan.frames);
            for section in own.start.max(sections.start)..own.end.min(sections.end) {
                if blocks_in(section, stretch.plan.frames) != 0 {
                    while self.settle(stretch, section, BLOCKS_AT_ONCE) > 0 {
                        M::Cpu::relax();
                    }
                }
            }
        }
    }
}
