//! Which mappings exist.

use super::Inspect;
use crate::machine::Machine;
use crate::table::ArrayVec;
use crate::units::{VirtAddr, VpnRange};
use crate::vma::{Vma, VmaAttributes};

/// Mappings that are copied under one lock of the space, at most. Few where tests are to see a second lock.
const VMAS_AT_ONCE: usize = if cfg!(debug_assertions) { 2 } else { 8 };

impl<M: Machine> Inspect<'_, '_, M> {
    /// Number of mappings; stale at once.
    pub fn nr_mappings(self) -> usize {
        self.space.mappings.vmas.len()
    }

    /// Calls `visit` with each mapping, in order, as /proc/self/maps lists them. Locks the space to read, for
    /// a few mappings at a time, and holds nothing while `visit` is called: it may call anything, this space
    /// too. As of /proc/self/maps, mappings that change meanwhile are told as they were when their few were
    /// looked at; no page is told twice.
    pub fn each_vma(self, mut visit: impl FnMut(&VmaAttributes)) {
        let mut rest = self.space.mappings.all_pages();
        while !rest.is_empty() {
            self.next_vmas(&mut rest).into_values().for_each(|vma| visit(&vma));
        }
    }

    /// The next few mappings of the range, which becomes what lies after them.
    fn next_vmas(self, rest: &mut VpnRange) -> ArrayVec<VmaAttributes, VMAS_AT_ONCE> {
        let guard = self.space.mappings.read_all();
        let mut found = ArrayVec::new();
        while !found.is_full() {
            let Some(vma) = self.space.mappings.first_in(guard.token(), *rest) else {
                *rest = VpnRange::default();
                break;
            };
            found.push(vma);
            rest.start = vma.range.end;
        }
        found
    }

    /// The mapping that holds the byte; stale at once. Takes no lock.
    pub fn vma_at(self, addr: VirtAddr) -> Option<VmaAttributes> {
        let reading = self.space.vm.rcu.read();
        self.space.mappings.vmas.find(&reading, addr.vpn()).map(Vma::attributes)
    }

    /// The first mapping that holds a page of the range; stale at once. Takes no lock.
    pub fn first_vma_in(self, range: VpnRange) -> Option<VmaAttributes> {
        self.space.mappings.first_in_racy(range)
    }

    /// Whether any page of the bytes is mapped; stale at once.
    pub fn is_any_mapped(self, addr: VirtAddr, len_bytes: u64) -> bool {
        VpnRange::from_bytes(addr, len_bytes).is_some_and(|range| self.first_vma_in(range).is_some())
    }
}
