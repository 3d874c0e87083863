//! Which mappings exist.

use crate::machine::Machine;
use crate::space::AddressSpace;
use crate::units::{VirtAddr, VpnRange};
use crate::vma::{Vma, VmaAttributes};

impl<M: Machine> AddressSpace<'_, M> {
    /// Number of mappings; stale at once.
    pub fn nr_mappings(&self) -> usize {
        self.vmas.len()
    }

    /// Calls `visit` with each mapping, in order, as /proc/self/maps lists them. Locks the space to read.
    pub fn each_vma(&self, mut visit: impl FnMut(&VmaAttributes)) {
        let guard = self.share_all();
        let mut rest = self.all_pages();
        while let Some(vma) = self.first_in(guard.held(), rest) {
            visit(&vma);
            rest = VpnRange::new(vma.range.end, rest.end);
        }
    }

    /// The mapping that holds the byte; stale at once. Takes no lock.
    pub fn vma_at(&self, addr: VirtAddr) -> Option<VmaAttributes> {
        let reading = self.vm.rcu.read();
        self.vmas.find(&reading, addr.vpn()).map(Vma::attributes)
    }

    /// Whether any page of the bytes is mapped; stale at once.
    pub fn is_any_mapped(&self, addr: VirtAddr, len_bytes: u64) -> bool {
        VpnRange::from_bytes(addr, len_bytes).is_some_and(|range| self.first_in_racy(range).is_some())
    }
}
