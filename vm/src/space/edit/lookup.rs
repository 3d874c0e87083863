//! Reading mappings, with a guard and without.

use super::Held;
use crate::machine::Machine;
use crate::space::AddressSpace;
use crate::units::{Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags};

impl<M: Machine> AddressSpace<'_, M> {
    /// The first mapping that holds a page of the range.
    #[inline]
    pub(in crate::space) fn first_in(&self, held: Held<'_>, range: VpnRange) -> Option<VmaAttributes> {
        held.assert_may_read(self, range);
        self.first_in_racy(range)
    }

    /// The first mapping that holds a page of the range, as it says at this moment. Needs no guard.
    pub(in crate::space) fn first_in_racy(&self, range: VpnRange) -> Option<VmaAttributes> {
        let reading = self.vm.rcu.read();
        let vma = self.vmas.at_or_after(&reading, range.start)?;
        (vma.range().start < range.end && !range.is_empty()).then(|| vma.attributes())
    }

    /// Whether entries of a mapping in the range may be those of the mappings that it replaces. Called with
    /// the range locked to read.
    pub(in crate::space) fn is_any_busy(&self, range: VpnRange) -> bool {
        if !self.entries.tlb.is_flush_pending() {
            return false;
        }
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
    pub(in crate::space) fn each_part_in<E>(
        &self,
        held: Held<'_>,
        range: VpnRange,
        mut visit: impl FnMut(VpnRange, &VmaAttributes) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut holes = false;
        let mut rest = range;
        while let Some(vma) = self.first_in(held, rest) {
            let part = rest.intersect(vma.range);
            holes |= part.start > rest.start;
            visit(part, &vma)?;
            rest = VpnRange::new(part.end, range.end);
        }
        Ok(!holes && rest.is_empty())
    }

    /// Number of pages of the range that are committed already.
    pub(in crate::space) fn committed_in(&self, held: Held<'_>, range: VpnRange) -> u64 {
        let mut committed = 0;
        let mut rest = range;
        while let Some(vma) = self.first_in(held, rest) {
            let part = rest.intersect(vma.range);
            committed += if vma.flags.contains(VmaFlags::ACCOUNT) { part.len() } else { 0 };
            rest = VpnRange::new(part.end, range.end);
        }
        committed
    }

    /// All pages of user space, and those below it that may not be mapped.
    pub(in crate::space) fn all_pages(&self) -> VpnRange {
        VpnRange::new(Vpn(0), self.layout.areas.user.end)
    }
}
