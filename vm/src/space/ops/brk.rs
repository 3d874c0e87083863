//! brk: the heap, which grows and shrinks at its end.

use crate::machine::Machine;
use crate::space::edit::VmaEdit;
use crate::space::{AddressSpace, Error, RangeGuard};
use crate::sync::atomic::Ordering::*;
use crate::units::{PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState, merge};

impl<M: Machine> AddressSpace<'_, M> {
    /// Moves the end of the heap to `end` and returns where it is then. As in Linux there is no error: a
    /// refused caller gets the old end.
    pub fn brk(&self, end: VirtAddr) -> VirtAddr {
        loop {
            let old = self.heap_end.load(Relaxed);
            if end < self.layout.heap_start || end.0 > self.layout.areas.user.end.addr().0 {
                return VirtAddr(old);
            }
            // Every other call that moves this end locks the page around it too.
            let (from, to) = (page_up(old), page_up(end.0));
            let guard = self.write(VpnRange::new(from.min(to), from.max(to)));
            if self.heap_end.load(Relaxed) != old {
                continue;
            }
            if to < from {
                // Kept until the new end is stored: no other writer sees the old one.
                let unmapped = self.unmap_range(guard, VpnRange::new(to, from));
                return self.end_heap(matches!(unmapped, Ok(Some(_))), old, end);
            }
            let grown = VpnRange::new(from, to);
            let has_grown = grown.is_empty() || self.grow_heap(&guard, grown).is_ok();
            return self.end_heap(has_grown, old, end);
        }
    }

    /// Notes where the heap ends now; returns that.
    fn end_heap(&self, has_moved: bool, old: u64, end: VirtAddr) -> VirtAddr {
        if !has_moved {
            return VirtAddr(old);
        }
        self.heap_end.store(end.0, Relaxed);
        end
    }

    fn grow_heap(&self, guard: &RangeGuard<'_, M>, grown: VpnRange) -> Result<(), Error> {
        let limits = self.limits(guard.held());
        // The page after the heap stays free too, as in Linux.
        let with_gap = VpnRange::new(grown.start, grown.end.add(1));
        if self.first_in(guard.held(), with_gap).is_some() {
            return Err(Error::NoMemory);
        }
        limits.may_map()?;
        limits.commit(grown.len())?;
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
    }
}

fn page_up(addr: u64) -> Vpn {
    VirtAddr((addr + PAGE_SIZE as u64 - 1) & !(PAGE_SIZE as u64 - 1)).vpn()
}
