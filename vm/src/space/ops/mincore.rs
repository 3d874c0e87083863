//! mincore: which pages are present.

use crate::machine::{Entry, Machine};
use crate::space::edit::Mappings;
use crate::space::edit::entries::Entries;
use crate::space::retry::PageRetry;
use crate::space::{AddressSpace, Error};
use crate::sync::Progress;
use crate::table::{OnFault, fault_rule, walk};
use crate::units::{Level, Pfn, VirtAddr, Vpn, VpnRange};
use crate::vma::{Backing, VmaAttributes};

/// Pages that are looked at under one lock of the space.
const PART: u64 = 512;
/// Whether each page of a part is resident, a bit for each.
type Residency = [u64; (PART / 64) as usize];

impl<M: Machine> AddressSpace<'_, M> {
    /// Calls `visit` with each page of the range, in order, and whether it is resident. Locks a part of the
    /// range to read at a time, as Linux does, and holds nothing while `visit` is called: it may call
    /// anything, this space too.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start; [`Error::NoMemory`] where the range leaves the space, or at
    /// a hole (pages before it have been visited).
    pub fn mincore(
        &self,
        addr: VirtAddr,
        len_bytes: u64,
        mut visit: impl FnMut(Vpn, bool),
    ) -> Result<(), Error> {
        if !addr.is_page_aligned() {
            return Err(Error::Invalid);
        }
        let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::NoMemory)?;
        if range.end > self.mappings.layout.areas.user.end {
            return Err(Error::NoMemory);
        }
        let mincore = Mincore { mappings: &self.mappings, entries: &self.entries };
        let mut rest = range;
        while !rest.is_empty() {
            let part = VpnRange::new(rest.start, rest.end.min(rest.start.add(PART)));
            let mut resident = Residency::default();
            let end = mincore.look_at(part, &mut resident);
            for nth in 0..end.0 - part.start.0 {
                let bit = resident[(nth / 64) as usize] >> (nth % 64) & 1;
                visit(part.start.add(nth), bit == 1);
            }
            if end < part.end {
                return Err(Error::NoMemory);
            }
            rest.start = end;
        }
        Ok(())
    }
}

/// Looking at which pages are resident.
pub(in crate::space) struct Mincore<'a, 'v, M: Machine> {
    pub mappings: &'a Mappings<'v, M>,
    pub entries: &'a Entries<'v, M>,
}

impl<M: Machine> Mincore<'_, '_, M> {
    /// Notes which pages of a part of a range are resident, up to a hole. Returns the first page that was not
    /// looked at.
    fn look_at(&self, part: VpnRange, resident: &mut Residency) -> Vpn {
        let guard = self.mappings.read_live(self.entries, part);
        let mut page = part.start;
        while page < part.end {
            let Some(vma) = self.mappings.first_in(guard.token(), VpnRange::new(page, page.add(1))) else {
                self.mappings.unlock_after_flush(self.entries, guard, part);
                break;
            };
            let end = vma.range.end.min(part.end);
            while page < end {
                let nth = page.0 - part.start.0;
                resident[(nth / 64) as usize] |=
                    u64::from(self.frame_behind(&vma, page).is_some()) << (nth % 64);
                page = page.add(1);
            }
        }
        page
    }

    /// The frame of a page of a mapping, and whether it is not the page's own: one of an object, or one that
    /// was given.
    pub fn frame_behind(&self, vma: &VmaAttributes, page: Vpn) -> Option<(Pfn, bool)> {
        let vm = self.entries.vm;
        let mut retry = PageRetry::new("mincore");
        loop {
            let reading = vm.rcu.read();
            let found = walk(&self.entries.table, page, Level::Pte, &reading);
            match (found.entry(), vma.backing.get()) {
                _ if retry.is_withheld() => {}
                (Entry::Leaf(leaf), _) => {
                    let level = found.table.level();
                    let class = self.entries.table.class_of(leaf, level);
                    let inside = page.0 & (level.entry_pages() - 1);
                    let pfn = if class.is_zeros() { vm.memory.zero_frame() } else { leaf.pfn.add(inside) };
                    return Some((pfn, !class.is_own()));
                }
                // A fault replaces the zero page: the page is resident all the time, its frame appears in a
                // moment.
                (Entry::Marker(marker), _) if fault_rule(marker) == Some(OnFault::Wait) => {}
                (Entry::Marker(marker), _) if fault_rule(marker).is_none() => return None,
                // As Linux, of private mappings too: a fault would find it.
                (_, Backing::Object(object)) => {
                    let object = vm.object(object, &reading)?;
                    let pfn = object.lookup(&vm.memory, vma.offset_at(page), &reading)?;
                    return Some((pfn, true));
                }
                _ => return None,
            }
            drop(reading);
            // A marker at which no call is working: no frame.
            retry.again_at((self.entries, &self.mappings.vmas), page, Progress::None).ok()?;
        }
    }
}
