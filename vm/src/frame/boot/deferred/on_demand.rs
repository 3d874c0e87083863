//! Initialisation on demand: an allocation that finds no free frame initialises blocks of its zone.

use super::claims::sections_of;
use super::{DeferredInit, DeferredRange};
use crate::frame::{Priority, Zone};
use crate::machine::Machine;
use crate::units::{Order, PfnRange};

/// Blocks that an allocation claims at once: 64 KiB of records, 8 MiB of memory.
const BLOCKS_ON_DEMAND: u32 = 2;

impl<'m, M: Machine> DeferredInit<'m, M> {
    /// Initialises at least one whole deferred block of the zone, which is as much as any request needs.
    /// `false` where none is unclaimed, or `priority` may not have 2^order of the frames that the zone will
    /// have then, or may not wait for initialisation.
    #[cold]
    pub(in crate::frame) fn initialise_on_demand(
        self,
        zone: &Zone<'_, M::Cpu>,
        order: Order,
        priority: Priority,
    ) -> bool {
        if !zone.may_initialise(&self.memory.table, order, priority) {
            return false;
        }
        zone.near_parts().any(|part| self.initialise_in(zone, part)) || self.initialise_anywhere(zone)
    }

    /// The ranges of a zone that become free memory.
    fn usable_ranges(self, zone: &Zone<'_, M::Cpu>) -> impl Iterator<Item = &'m DeferredRange<M::Cpu>> {
        let of_zone = move |range: &&DeferredRange<M::Cpu>| {
            range.usable.is_some() && core::ptr::eq(&self.memory.zones[range.zone as usize], zone)
        };
        self.memory.deferred.ranges.iter().filter(of_zone)
    }

    /// Initialises blocks of a part of the zone: of the regions near this CPU, so that two CPUs that need
    /// memory do not get it from one region.
    fn initialise_in(self, zone: &Zone<'_, M::Cpu>, part: PfnRange) -> bool {
        self.usable_ranges(zone).filter(|range| range.frames.overlaps(part)).any(|range| {
            let part = range.frames.intersect(part);
            sections_of(part).any(|section| self.initialise_part(range, part, section, BLOCKS_ON_DEMAND) > 0)
        })
    }

    fn initialise_anywhere(self, zone: &Zone<'_, M::Cpu>) -> bool {
        self.usable_ranges(zone).any(|range| {
            let sections = range.next()..sections_of(range.frames).end;
            sections.into_iter().any(|section| {
                let initialised = self.initialise_blocks(range, section, BLOCKS_ON_DEMAND) > 0;
                if !initialised {
                    range.advance(section + 1);
                }
                initialised
            })
        })
    }

    /// Frames of deferred blocks that are not claimed yet, those in large holes among them; stale at once.
    pub fn unclaimed_frames(self) -> u64 {
        let unclaimed = |range: &DeferredRange<M::Cpu>| {
            let in_section =
                |section| self.memory.deferred.claims.unclaimed(section, range.frames).count_ones();
            sections_of(range.frames).map(in_section).map(u64::from).sum::<u64>() * Order::MAX.frames()
        };
        self.memory.deferred.ranges.iter().map(unclaimed).sum()
    }

    /// Usable frames that were not freed to their zones yet.
    pub fn frames(self) -> u64 {
        self.memory.zones.iter().map(Zone::deferred).sum()
    }
}
