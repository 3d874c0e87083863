//! An allocation that finds nothing grows its zone.

use super::sections::sections_of;
use crate::frame::{Memory, Priority, Zone};
use crate::machine::Machine;
use crate::units::Order;

/// Blocks that one growth claims: 64 KiB of records, 8 MiB of memory.
pub(super) const GROWTH_BLOCKS: u32 = 2;

impl<M: Machine> Memory<'_, M> {
    /// Gives the zone at least one whole block that waited, which is as much as any request needs. `false`
    /// where none is raw, or `priority` may not have 2^order frames of what there will be, or may not wait
    /// for growth at all.
    #[cold]
    pub(in crate::frame) fn grow(&self, zone: &Zone<M::Cpu>, order: Order, priority: Priority) -> bool {
        if !zone.may_grow(order, priority) {
            return false;
        }
        let mine = |zone_index: u8| core::ptr::eq(&self.zones[zone_index as usize], zone);
        let given = |plan: super::stretch::Plan| plan.gives.is_some() && mine(plan.zone);
        let mut stretches = self.deferred.stretches.iter().filter(|stretch| given(stretch.plan));
        stretches.any(|stretch| {
            let sections = stretch.next()..sections_of(stretch.plan.frames).end;
            sections.into_iter().any(|section| {
                let grew = self.settle(stretch, section, GROWTH_BLOCKS) > 0;
                if !grew {
                    stretch.passed(section + 1);
                }
                grew
            })
        })
    }

    /// Frames whose records nobody has claimed yet, those in large holes among them; stale at once.
    pub fn unclaimed_frames(&self) -> u64 {
        let raw = |stretch: &super::Stretch<M::Cpu>| {
            let frames = stretch.plan.frames;
            let blocks =
                sections_of(frames).map(|section| self.deferred.sections.raw(section, frames).count_ones());
            blocks.map(u64::from).sum::<u64>() * Order::MAX.frames()
        };
        self.deferred.stretches.iter().map(raw).sum()
    }

    /// Frames that no zone has got yet.
    pub fn deferred_frames(&self) -> u64 {
        self.zones.iter().map(Zone::waiting).sum()
    }
}
