//! Pages of a space that has moved own memory: where a page of a frame's record is now.
//!
//! | first mapped | where it is now |
//! |---|---|
//! | in a mapping that had not moved | where each mapping says that the page of its offset is |
//! | in one that had moved, and moved again | in the tables of private mappings, looked through |
//! | in a private mapping of an object, or of the hugetlb pool | the same |

use crate::machine::{Leaf, Machine};
use crate::space::AddressSpace;
use crate::table::{LockedTable, find_frame};
use crate::units::{Pfn, Vpn, VpnRange};
use crate::vma::VmaAttributes;

/// Entries that are looked at in one read section.
const AT_ONCE: u64 = 4096;

/// An entry: its page; its table, locked, its slot, and the leaf.
type Found<'s, M> = (Vpn, (LockedTable<'s, M>, usize, Leaf));

impl<M: Machine> AddressSpace<'_, M> {
    /// The entry of a frame that was first mapped at `page`, which does not map it, where own memory of the
    /// space was moved. Looks through tables only where `is_thorough`. Locks the space to read, so that no
    /// entry is on its way meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn moved_leaf(&self, page: Vpn, pfn: Pfn, is_thorough: bool) -> Option<Found<'_, M>> {
        if !self.entries.has_moved() {
            return None;
        }
        let guard = self.mappings.read_all();
        let at = |page: Vpn| Some((page, self.entries.leaf_of_frame(page, pfn)?));
        // It may have come back in the meantime.
        let mut found = at(page);
        let all = self.mappings.all_pages();
        let mut rest = all;
        while found.is_none()
            && let Some(vma) = self.mappings.first_in(guard.token(), rest)
        {
            rest = VpnRange::new(vma.range.end, all.end);
            found = page_in(&vma, page).and_then(at);
            if found.is_none() && is_thorough && vma.is_private() && !vma.anon.is_none() {
                found = self.find_in(vma.range, pfn).and_then(at);
            }
        }
        found
    }

    /// The page of the range that maps the frame.
    fn find_in(&self, range: VpnRange, pfn: Pfn) -> Option<Vpn> {
        let mut rest = range;
        while !rest.is_empty() {
            let reading = self.vm.rcu.read();
            let found = find_frame(&self.entries.table, pfn, rest, AT_ONCE, &reading);
            if found.page.is_some() {
                return found.page;
            }
            rest.start = found.next;
        }
        None
    }
}

/// Where a mapping of anonymous memory that has moved has a page that it had before.
fn page_in(vma: &VmaAttributes, page: Vpn) -> Option<Vpn> {
    let has_moved = vma.is_anonymous() && vma.offset != vma.range.start.0;
    let now = Vpn(vma.range.start.0.wrapping_add(page.0.wrapping_sub(vma.offset)));
    (has_moved && vma.range.contains(now)).then_some(now)
}
