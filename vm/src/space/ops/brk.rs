//! brk: the heap, which grows and shrinks at its end.

use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, VmaEdit};
use crate::space::ops::unmap::Unmap;
use crate::space::{AddressSpace, Error, RangeGuard};
use crate::sync::atomic::Ordering::*;
use crate::units::{PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState, merge};

impl<M: Machine> AddressSpace<'_, M> {
    /// Moves the end of the heap to `end` and returns where it is then. As in Linux there is no error: a
    /// refused caller gets the old end.
    pub fn brk(&self, end: VirtAddr) -> VirtAddr {
        Brk { mappings: &self.mappings, entries: &self.entries }.run(end)
    }
}

/// Moving the end of the heap.
struct Brk<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<M: Machine> Brk<'_, '_, M> {
    fn run(&self, end: VirtAddr) -> VirtAddr {
        let Self { mappings, entries } = *self;
        let layout = &mappings.layout;
        loop {
            let old = mappings.heap_end.load(Relaxed);
            if end < layout.heap_start || end.0 > layout.areas.user.end.addr().0 {
                return VirtAddr(old);
            }
            // Every other call that moves this end locks the page around it too.
            let (from, to) = (page_up(old), page_up(end.0));
            let guard = mappings.write(VpnRange::new(from.min(to), from.max(to)));
            if mappings.heap_end.load(Relaxed) != old {
                continue;
            }
            if to < from {
                // Kept until the new end is stored: no other writer sees the old one.
                let unmapped = Unmap { mappings, entries }.run(guard, VpnRange::new(to, from));
                return self.end(matches!(unmapped, Ok(Some(_))), old, end);
            }
            let grown = VpnRange::new(from, to);
            let has_grown = grown.is_empty() || self.grow(&guard, grown).is_ok();
            return self.end(has_grown, old, end);
        }
    }

    /// Notes where the heap ends now; returns that.
    fn end(&self, has_moved: bool, old: u64, end: VirtAddr) -> VirtAddr {
        if !has_moved {
            return VirtAddr(old);
        }
        self.mappings.heap_end.store(end.0, Relaxed);
        end
    }

    fn grow(&self, guard: &RangeGuard<'_, M>, grown: VpnRange) -> Result<(), Error> {
        let limits = self.mappings.limits(guard.token());
        // The page after the heap stays free too, as in Linux.
        let with_gap = VpnRange::new(grown.start, grown.end.add(1));
        if self.mappings.first_in(guard.token(), with_gap).is_some() {
            return Err(Error::NoMemory);
        }
        limits.may_map()?;
        limits.commit(grown.len())?;
        let edit = VmaEdit::new(self.mappings, guard);
        let new = VmaAttributes::anonymous(grown, VmaFlags::heap());
        let heap_start = page_up(self.mappings.layout.heap_start.0);
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
