//! brk: the heap, which grows and shrinks at its end.

use crate::machine::Machine;
use crate::space::edit::VmaEdit;
use crate::space::{AddressSpace, WriteGuard};
use crate::sync::atomic::Ordering::*;
use crate::units::{PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState, merge};

impl<M: Machine> AddressSpace<'_, M> {
    /// Moves the end of the heap to `end` and returns where it is then. As in Linux there is no error: who is
    /// refused is told the old end.
    pub fn brk(&self, end: VirtAddr) -> VirtAddr {
        let guard = self.lock.write();
        let old = self.heap_end.load(Relaxed);
        if end < self.layout.heap_start || end.0 > self.layout.areas.user.end.addr().0 {
            return VirtAddr(old);
        }
        if !self.move_break(&guard, page_up(old), page_up(end.0)) {
            return VirtAddr(old);
        }
        self.heap_end.store(end.0, Relaxed);
        end
    }

    /// Grows or shrinks the heap's mapping; says whether it could.
    fn move_break(&self, guard: &WriteGuard<'_, M>, old: Vpn, new: Vpn) -> bool {
        match new.cmp(&old) {
            core::cmp::Ordering::Equal => true,
            core::cmp::Ordering::Less => {
                let released = VpnRange::new(new, old);
                self.first_in(released).is_some() && self.unmap_range(guard, released).is_ok()
            }
            core::cmp::Ordering::Greater => self.grow_heap(guard, VpnRange::new(old, new)),
        }
    }

    fn grow_heap(&self, guard: &WriteGuard<'_, M>, grown: VpnRange) -> bool {
        // The page after the heap stays free too, as Linux has it.
        let with_gap = VpnRange::new(grown.start, grown.end.add(1));
        if self.first_in(with_gap).is_some() || self.vmas.len() > self.layout.max_mappings {
            return false;
        }
        if self.charge_commit(grown.len()).is_err() {
            return false;
        }
        let edit = VmaEdit::new(self, guard);
        let new = VmaAttributes::anonymous(grown, VmaFlags::heap());
        let heap_start = page_up(self.layout.heap_start.0);
        let prev = edit.ending_at(grown.start).filter(|prev| prev.range.end > heap_start);
        let merged = merge(prev, new, None);
        edit.replace(
            merged.attributes.range,
            &[Some((merged.attributes, VmaState::Live))],
            VpnRange::default(),
        )
        .is_ok()
    }
}

fn page_up(addr: u64) -> Vpn {
    VirtAddr((addr + PAGE_SIZE as u64 - 1) & !(PAGE_SIZE as u64 - 1)).vpn()
}
