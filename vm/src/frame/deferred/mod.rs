//! Frame records that are written when their block is first needed.
//!
//! ```text
//!        nothing was written,           somebody has it             records written,
//!        nobody looks                   and writes                  in the zone's list
//!      ┌────────────────┐   claim   ┌───────────────┐   give    ┌────────────────────┐
//!      │      raw       │──────────►│    claimed    │──────────►│       free ...     │
//!      └────────────────┘  one bit  └───────────────┘ zone lock └────────────────────┘
//! ```
//!
//! The unit is a block of the largest order: a merge never looks beyond one, and a lockless walker only at
//! frames that were handed out. Blocks with an edge of a region in them are written at start; those that wait
//! are whole, or hold nothing usable. An allocation that finds its zone empty claims one or two
//! ([`grow`](Memory::grow)), a job claims all ([`Memory::initialise`]). A claim is one exchange of the
//! section's word, so no two ever write the same record.
//!
//! Between claim and gift preemption is off and nothing is waited for but the zone's lock. So an allocation
//! may wait for blocks that are on their way: whoever has them is running.
//!
//! docs/design/deferred.md has the longer story.

mod grow;
mod jobs;
#[cfg(all(test, loom))]
mod loom_tests;
mod sections;
mod stretch;
#[cfg(all(test, not(loom)))]
mod tests;

pub use jobs::NodeInitReport;
pub use sections::SECTION_FRAMES;
pub(super) use sections::Sections;
use stretch::whole_blocks;
pub(super) use stretch::{Stretch, most_stretches, plan};

use super::{Init, Memory};
use crate::machine::{Cpu, Machine};
use crate::units::{Order, Pfn, PfnRange};
use sections::Claim;

/// Everything that waits.
#[derive(Debug)]
pub(super) struct Deferred<'m, C: Cpu> {
    stretches: &'m [Stretch<C>],
    sections: Sections<'m, C>,
    records: Init,
}

impl<'m, C: Cpu> Deferred<'m, C> {
    /// Stretches by ascending address, and how their records start.
    pub fn new(stretches: &'m [Stretch<C>], sections: Sections<'m, C>, records: Init) -> Self {
        Self { stretches, sections, records }
    }

    /// What waits, by ascending address.
    pub fn stretches(&self) -> &'m [Stretch<C>] {
        self.stretches
    }

    /// Whether records hold what memory held, and not zeroes.
    pub fn must_write(&self) -> bool {
        self.records == Init::Dirty
    }

    /// Whether the block that starts at `pfn`, a multiple of its size, waits; stale at once.
    pub fn is_raw(&self, pfn: Pfn) -> bool {
        let after = self.stretches.partition_point(|stretch| stretch.plan.frames.start <= pfn);
        let stretch = after.checked_sub(1).map(|at| self.stretches[at].plan.frames);
        let block = PfnRange::new(pfn, pfn.add(Order::MAX.frames()));
        stretch.is_some_and(|frames| frames.covers(block))
            && self.sections.raw(sections::section_of(pfn), block) != 0
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Claims up to `most` blocks of a stretch in a section, writes their records, and gives them to their
    /// zone. Returns how many; 0 where all are claimed.
    fn settle(&self, stretch: &Stretch<M::Cpu>, section: u64, most: u32) -> u32 {
        M::Cpu::preempt_off();
        let claim = self.deferred.sections.claim(section, stretch.plan.frames, most);
        if let Some(claim) = claim {
            self.write_records(claim);
            self.give_claim(stretch, claim);
        }
        M::Cpu::preempt_on();
        claim.map_or(0, |claim| claim.blocks.count_ones())
    }

    fn write_records(&self, claim: Claim) {
        if self.deferred.must_write() {
            claim.pieces().for_each(|piece| self.write_piece(piece.intersect(self.table.span())));
        }
    }

    /// Writes the records of claimed blocks, as far as the table has them: of its first block and its last
    /// one it may have a part.
    fn write_piece(&self, frames: PfnRange) {
        let whole = whole_blocks(frames);
        let before = PfnRange::new(frames.start, whole.start.min(frames.end));
        let after = PfnRange::new(whole.end.max(before.end), frames.end);
        // SAFETY: the three are parts of the table, which was carved as found; the claim says that nobody
        // else writes these records, and nobody reads those of a block that was not given yet. The middle one
        // is whole blocks.
        unsafe {
            self.table.clear(before);
            if !whole.is_empty() {
                self.table.clear_blocks(self.machine, whole);
            }
            self.table.clear(after);
        }
    }

    fn give_claim(&self, stretch: &Stretch<M::Cpu>, claim: Claim) {
        let Some(init) = stretch.plan.gives else { return };
        let zone = &self.zones[stretch.plan.zone as usize];
        let mut chain = zone.chain();
        for piece in claim.pieces() {
            let blocks = (piece.start.0..piece.end.0).step_by(Order::MAX.frames() as usize);
            blocks.for_each(|pfn| chain.push(&self.table, Pfn(pfn), init));
        }
        zone.add_chain(&self.table, chain);
    }
}
