//! Reading mappings, with a guard and without.

use super::RangeToken;
use super::mappings::Mappings;
use crate::machine::Machine;
use crate::table::may_cover_table;
use crate::units::{Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags};

impl<M: Machine> Mappings<'_, M> {
    /// The first mapping that holds a page of the range.
    #[inline]
    pub fn first_in(&self, token: RangeToken<'_>, range: VpnRange) -> Option<VmaAttributes> {
        token.assert_may_read(self.id, range);
        self.first_in_racy(range)
    }

    /// The first mapping that holds a page of the range, as it says at this moment. Needs no guard.
    pub fn first_in_racy(&self, range: VpnRange) -> Option<VmaAttributes> {
        let reading = self.vm.rcu.read();
        let vma = self.vmas.at_or_after(&reading, range.start)?;
        (vma.range().start < range.end && !range.is_empty()).then(|| vma.attributes())
    }

    /// Whether entries of a mapping in the range may be those of the mappings that it replaces, where a flush
    /// is pending. Called with the range locked to read.
    pub fn is_any_busy(&self, range: VpnRange) -> bool {
        let reading = self.vm.rcu.read();
        let mut rest = range;
        while let Some(vma) = self.vmas.at_or_after(&reading, rest.start)
            && vma.range().start < rest.end
        {
            if !vma.is_live() {
                return true;
            }
            rest.start = vma.range().end;
        }
        false
    }

    /// Visits the part of each mapping that lies in the range, in order, until `visit` fails; it may replace
    /// that mapping. Returns whether no page of the range lies in a hole.
    pub fn each_part_in<E>(
        &self,
        token: RangeToken<'_>,
        range: VpnRange,
        mut visit: impl FnMut(VpnRange, &VmaAttributes) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut holes = false;
        let mut rest = range;
        while let Some(vma) = self.first_in(token, rest) {
            let part = rest.intersect(vma.range);
            holes |= part.start > rest.start;
            visit(part, &vma)?;
            rest = VpnRange::new(part.end, range.end);
        }
        Ok(!holes && rest.is_empty())
    }

    /// Number of pages of the range that are committed already.
    pub fn committed_in(&self, token: RangeToken<'_>, range: VpnRange) -> u64 {
        let mut committed = 0;
        let mut rest = range;
        while let Some(vma) = self.first_in(token, rest) {
            let part = rest.intersect(vma.range);
            committed += if vma.flags.contains(VmaFlags::ACCOUNT) { part.len() } else { 0 };
            rest = VpnRange::new(part.end, range.end);
        }
        committed
    }

    /// All pages of user space, and those below it that may not be mapped.
    pub fn all_pages(&self) -> VpnRange {
        VpnRange::new(Vpn(0), self.layout.areas.user.end)
    }

    /// As [`hole_around`](Self::hole_around), for calls that are seldom made: no part of them, nor of munmap.
    #[cold]
    #[inline(never)]
    pub fn hole_around_seldom(&self, token: RangeToken<'_>, range: VpnRange) -> Option<VpnRange> {
        self.hole_around(token, range, [None; 2])
    }

    /// The pages around a range that no mapping has, and the range, which has none that takes part in faults;
    /// `None` where they cover no table. `touching` are the mappings that begin or end where the range does,
    /// where that is known. It may reach beyond the guard's range: as far as the guard's lock keeps other
    /// writers out, which is everywhere today.
    #[inline(always)]
    pub fn hole_around(
        &self,
        token: RangeToken<'_>,
        range: VpnRange,
        touching: [Option<VmaAttributes>; 2],
    ) -> Option<VpnRange> {
        token.assert_covers(self.id, range);
        let [left, right] = touching;
        let mut hole = VpnRange::new(
            left.map_or(Vpn(0), |vma| vma.range.end),
            right.map_or(Vpn(1 << 52), |vma| vma.range.start),
        );
        if !may_cover_table(range, hole) {
            return None;
        }
        let reading = self.vm.rcu.read();
        if left.is_none() {
            hole.start = self.vmas.before(&reading, range.start).map_or(hole.start, |vma| vma.range().end);
        }
        if right.is_none() {
            hole.end = self.vmas.at_or_after(&reading, range.end).map_or(hole.end, |vma| vma.range().start);
        }
        may_cover_table(range, hole).then_some(hole)
    }
}
