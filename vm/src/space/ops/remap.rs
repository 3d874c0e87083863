//! mremap: a range of pages gets another length, another address, or both.
//!
//! ```text
//!   check the words ─► lock the space ─► the mapping there, checked
//!        ├─ same length, no place named ──► nothing
//!        ├─ shorter, no place named ──────► munmap of its end
//!        ├─ longer, and room behind it ───► joined with more of the same
//!        └─ else ─────────────────────────► unmap what is in the way, choose a place, move (`remap_move`)
//! ```
//!
//! The errors, their order, and what a refused call has changed by then are those of Linux 6.18:
//! docs/design/mremap.md, docs/design/linux-semantics.md.

use super::place::{Destination, page_len};
use super::remap_move::MoveMapping;
use super::unmap::Unmap;
use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, VmaEdit};
use crate::space::{AddressSpace, Error, MapRequest, RangeGuard, Sharing};
use crate::units::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState, merge};
use bitflags::bitflags;

bitflags! {
    /// What a remapping may do, and where its pages go.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct RemapFlags: u32 {
        /// The pages may get another address, where there is no room in place (MREMAP_MAYMOVE).
        const MAY_MOVE = 1;
        /// They go to the address that the request names, over all mappings there (MREMAP_FIXED). Without
        /// another length, the range may have several mappings, and holes between them.
        const FIXED = 2;
        /// They go elsewhere, and the old mapping stays, without what was in it (MREMAP_DONTUNMAP). What the
        /// request names is a hint.
        const DONT_UNMAP = 4;
    }
}

/// A request to remap pages: the words of mremap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapRequest {
    /// The first page.
    pub addr: VirtAddr,
    /// Bytes now, rounded up to pages. 0, of shared memory: another mapping of the same pages is made.
    pub old_len_bytes: u64,
    /// Bytes afterwards, likewise.
    pub new_len_bytes: u64,
    /// What may be done.
    pub flags: RemapFlags,
    /// Where the pages go with [`RemapFlags::FIXED`]; with [`RemapFlags::DONT_UNMAP`] alone, where they might
    /// go. Else it matters only in that Linux wants one that is a multiple of the page size of the hugetlb
    /// pool, where such pages are remapped.
    pub to: VirtAddr,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Gives pages another length, another address, or both (mremap). Returns the first address.
    ///
    /// What is the space's own moves with its contents. When it returns, no CPU uses an old translation.
    ///
    /// Locks the space to write, and is alone in it to the end: faults that need no lock go on elsewhere. May
    /// wait for readers.
    ///
    /// # Errors
    /// In Linux's order: [`Error::Invalid`] for an unaligned address, a new length of 0 or beyond user space,
    /// and, where a place is named, one that is unaligned, beyond user space, over the old pages, or without
    /// [`RemapFlags::MAY_MOVE`], and another length with [`RemapFlags::DONT_UNMAP`]; [`Error::NoMemory`] for
    /// too many mappings where a place is named; [`Error::Fault`] where nothing is mapped at the address;
    /// [`Error::Invalid`] for hugetlb pages that are cut or become more, an old length of 0 of private
    /// memory, and a mapping with a fixed length that is to stay; [`Error::Fault`] where the range reaches
    /// beyond its mapping; [`Error::Invalid`] where no number counts the last page of the object;
    /// [`Error::Fault`] for a mapping of PFN-mapped frames that is to grow; [`Error::NoMemory`] where it may
    /// not move and has no room, the pages cannot be committed, too many mappings, no room, or for lack of
    /// memory; [`Error::NotPermitted`] for a place below the space's lowest address.
    ///
    /// Refused for lack of memory, the pages are where they were; what was in the way of
    /// [`RemapFlags::FIXED`], and the end that a shorter length has cut off, is unmapped. Of several mappings
    /// those before the one that is refused have moved.
    pub fn remap(&self, request: &RemapRequest) -> Result<VirtAddr, Error> {
        let remap = Remap { mappings: &self.mappings, entries: &self.entries };
        remap.run(request)
    }
}

/// What is to be done with pages of one mapping, in whole pages.
#[derive(Clone, Copy, Debug)]
struct RemapPages {
    start: Vpn,
    old_len: u64,
    new_len: u64,
    flags: RemapFlags,
    to: VirtAddr,
}

impl RemapPages {
    /// Whether the request names a place: the pages move.
    fn names_place(&self) -> bool {
        self.flags.intersects(RemapFlags::FIXED | RemapFlags::DONT_UNMAP)
    }

    /// By how many pages the length changes.
    fn delta(&self) -> u64 {
        self.old_len.abs_diff(self.new_len)
    }

    /// The pages that have it.
    fn old(&self) -> VpnRange {
        VpnRange::new(self.start, self.start.add(self.old_len))
    }

    /// With lengths in whole pages of the mapping's size.
    ///
    /// # Errors
    /// [`Error::Invalid`] where such a page is cut, or there would be more of them.
    fn in_pages_of(self, vma: &VmaAttributes) -> Result<Self, Error> {
        let Some(pool) = vma.hugetlb() else { return Ok(self) };
        let (unit, bytes) = (pool.size.pages(), pool.size.bytes());
        let (old_len, new_len) = (self.old_len.next_multiple_of(unit), self.new_len.next_multiple_of(unit));
        let is_cut = !self.start.0.is_multiple_of(unit) || !self.to.0.is_multiple_of(bytes);
        if is_cut || new_len > old_len {
            return Err(Error::Invalid);
        }
        Ok(Self { old_len, new_len, ..self })
    }

    /// Checks what is to grow or to move against its mapping.
    fn check(&self, vma: &VmaAttributes) -> Result<(), Error> {
        let has_fixed_length = vma.pfn_mapping().is_some() || vma.hugetlb().is_some();
        if self.old_len == 0 && vma.is_private() {
            return Err(Error::Invalid);
        }
        if self.flags.contains(RemapFlags::DONT_UNMAP) && has_fixed_length {
            return Err(Error::Invalid);
        }
        if self.old_len.min(self.new_len) > vma.range.end.0 - self.start.0 {
            return Err(Error::Fault);
        }
        if self.new_len <= self.old_len {
            return Ok(());
        }
        vma.offset_at(self.start).checked_add(self.new_len).ok_or(Error::Invalid)?;
        if has_fixed_length { Err(Error::Fault) } else { Ok(()) }
    }
}

/// Remapping pages of a space.
struct Remap<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<M: Machine> Remap<'_, '_, M> {
    fn run(&self, request: &RemapRequest) -> Result<VirtAddr, Error> {
        let wanted = self.checked(request)?;
        let guard = self.mappings.write_all();
        if wanted.names_place() {
            self.mappings.limits(guard.token()).may_remap_to()?;
        }
        if wanted.start >= self.mappings.layout.areas.user.end {
            return Err(Error::Fault);
        }
        if wanted.flags.contains(RemapFlags::FIXED) && wanted.old_len == wanted.new_len {
            return self.each(&guard, wanted);
        }
        let vma = self.vma_at(&guard, wanted.start)?;
        let wanted = wanted.in_pages_of(&vma)?;
        if wanted.names_place() || wanted.new_len > wanted.old_len {
            wanted.check(&vma)?;
        }
        if wanted.names_place() {
            return self.to(&guard, wanted);
        }
        if wanted.new_len > wanted.old_len {
            return self.longer(&guard, &vma, wanted);
        }
        if wanted.new_len < wanted.old_len {
            let Self { mappings, entries } = *self;
            let unmapped = Unmap { mappings, entries }.run(guard, self.end_of(wanted)?)?;
            if let Some(guard) = unmapped {
                drop(guard);
            }
        }
        Ok(wanted.start.addr())
    }

    /// The words, as far as they can be checked without a mapping.
    fn checked(&self, request: &RemapRequest) -> Result<RemapPages, Error> {
        let RemapRequest { addr, old_len_bytes, new_len_bytes, flags, to } = *request;
        let user_end = self.mappings.layout.areas.user.end;
        // A length beyond the last page is none, as in Linux.
        let pages = |len_bytes| page_len(len_bytes).unwrap_or(0);
        let wanted = RemapPages {
            start: addr.vpn(),
            old_len: pages(old_len_bytes),
            new_len: pages(new_len_bytes),
            flags,
            to,
        };
        if !addr.is_page_aligned() || wanted.new_len == 0 || wanted.new_len > user_end.0 {
            return Err(Error::Invalid);
        }
        if !wanted.names_place() {
            return Ok(wanted);
        }
        let is_beyond = to.0 > user_end.addr().0 - wanted.new_len * PAGE_SIZE as u64;
        let changes_length = wanted.old_len != wanted.new_len && flags.contains(RemapFlags::DONT_UNMAP);
        // An end that wraps lies below everything, as in Linux.
        let end = (wanted.start.0 + wanted.old_len) % (1 << (u64::BITS - PAGE_SHIFT));
        let overlaps = end > to.vpn().0 && to.vpn().0 + wanted.new_len > wanted.start.0;
        let is_invalid = is_beyond
            || !to.is_page_aligned()
            || !flags.contains(RemapFlags::MAY_MOVE)
            || changes_length
            || overlaps && !mutant!("remap.overlap-allowed");
        if is_invalid { Err(Error::Invalid) } else { Ok(wanted) }
    }

    /// The mapping of the page, as it is now.
    fn vma_at(&self, guard: &RangeGuard<'_, M>, page: Vpn) -> Result<VmaAttributes, Error> {
        self.mappings.first_in(guard.token(), VpnRange::new(page, page.add(1))).ok_or(Error::Fault)
    }

    /// The pages that a shorter length cuts off.
    fn end_of(&self, wanted: RemapPages) -> Result<VpnRange, Error> {
        let user_end = self.mappings.layout.areas.user.end;
        let range = VpnRange::new(wanted.start.add(wanted.new_len), wanted.start.add(wanted.old_len));
        if range.end <= user_end { Ok(range) } else { Err(Error::Invalid) }
    }

    /// Moves all mappings of the range, each as it lies in it.
    fn each(&self, guard: &RangeGuard<'_, M>, wanted: RemapPages) -> Result<VirtAddr, Error> {
        let range = wanted.old();
        let mut rest = range;
        let mut moved_to = Err(Error::Fault);
        while let Some(vma) = self.mappings.first_in(guard.token(), rest) {
            let part = range.intersect(vma.range);
            if moved_to.is_err() && part.start > range.start {
                return Err(Error::Fault);
            }
            let to = wanted.to.vpn().add(part.start.0 - range.start.0).addr();
            let part_len = part.len();
            let one = RemapPages { start: part.start, old_len: part_len, new_len: part_len, to, ..wanted };
            let one = one.in_pages_of(&vma)?;
            one.check(&vma)?;
            let to = self.to(guard, one)?;
            moved_to = moved_to.or(Ok(to));
            rest = VpnRange::new(part.end, range.end.max(part.end));
        }
        moved_to
    }

    /// Moves pages of one mapping to the place that is named.
    fn to(&self, guard: &RangeGuard<'_, M>, wanted: RemapPages) -> Result<VirtAddr, Error> {
        let Self { mappings, entries } = *self;
        let new_at = |start: Vpn| VpnRange::new(start, start.add(wanted.new_len));
        let is_fixed = wanted.flags.contains(RemapFlags::FIXED);
        if is_fixed {
            Unmap { mappings, entries }.run_alone(guard, new_at(wanted.to.vpn()))?;
            // An end that wraps does not keep it from being over the old pages.
            self.vma_at(guard, wanted.start)?;
        }
        let delta = wanted.delta();
        let mut wanted = wanted;
        if wanted.new_len < wanted.old_len {
            Unmap { mappings, entries }.run_alone(guard, self.end_of(wanted)?)?;
            wanted.old_len = wanted.new_len;
        }
        let vma = self.vma_at(guard, wanted.start)?;
        let new = if !is_fixed {
            self.room(guard, &vma, wanted)?
        } else if wanted.to.vpn() < mappings.layout.areas.user.start {
            return Err(Error::NotPermitted);
        } else {
            new_at(wanted.to.vpn())
        };
        let leaves_old = wanted.flags.contains(RemapFlags::DONT_UNMAP);
        // As Linux commits: a shorter length counts as a longer one.
        let charge = if leaves_old { wanted.new_len } else { delta };
        MoveMapping { mappings, entries, guard, old: wanted.old(), new, leaves_old }.run(&vma, charge)?;
        Ok(new.start.addr())
    }

    /// Makes a mapping longer: in place, or where there is room.
    fn longer(
        &self,
        guard: &RangeGuard<'_, M>,
        vma: &VmaAttributes,
        wanted: RemapPages,
    ) -> Result<VirtAddr, Error> {
        let Self { mappings, entries } = *self;
        let more = VpnRange::new(vma.range.end, Vpn(vma.range.end.0.saturating_add(wanted.delta())));
        let ends_here = wanted.old().end == vma.range.end;
        if ends_here
            && more.end <= mappings.layout.areas.user.end
            && mappings.first_in(guard.token(), more).is_none()
        {
            self.extend(guard, more)?;
            return Ok(wanted.start.addr());
        }
        if !wanted.flags.contains(RemapFlags::MAY_MOVE) {
            return Err(Error::NoMemory);
        }
        let new = self.room(guard, vma, wanted)?;
        MoveMapping { mappings, entries, guard, old: wanted.old(), new, leaves_old: false }
            .run(vma, wanted.delta())?;
        Ok(new.start.addr())
    }

    /// Makes the mapping that ends where the hole `more` begins longer by that; what follows may join it.
    fn extend(&self, guard: &RangeGuard<'_, M>, more: VpnRange) -> Result<(), Error> {
        let mappings = self.mappings;
        let edit = VmaEdit::new(mappings, guard);
        let vma = edit.ending_at(more.start).ok_or(Error::Fault)?;
        if vma.flags.contains(VmaFlags::ACCOUNT) && !mutant!("remap.growth-uncommitted") {
            mappings.limits(guard.token()).commit(more.len())?;
        }
        let grown = vma.over(more);
        let merged = merge(Some(vma), grown, edit.at(more.end));
        mappings.enter_object(&grown)?;
        let live = Some((merged.attributes, VmaState::Live));
        edit.replace(merged.attributes.range, &[live], VpnRange::default())
            .inspect_err(|_| mappings.leave_object(&grown))
    }

    /// Room for the mapping, as mmap chooses it; at the hint of the request, if that is free.
    fn room(
        &self,
        guard: &RangeGuard<'_, M>,
        vma: &VmaAttributes,
        wanted: RemapPages,
    ) -> Result<VpnRange, Error> {
        let mappings = self.mappings;
        let wish = if wanted.names_place() { wanted.to } else { VirtAddr(0) };
        let hint = VpnRange::new(wish.vpn(), wish.vpn().add(wanted.new_len));
        // A hint is not raised as that of mmap is.
        let is_low = wish.0 != 0 && hint.start < mappings.layout.areas.user.start;
        if is_low && mappings.first_in(guard.token(), hint).is_none() {
            return Err(Error::NotPermitted);
        }
        let wish = if is_low { VirtAddr(0) } else { wish };
        let is_object = !vma.is_private() || vma.backing.object().is_some();
        // Where mmap looks for room for such memory.
        let request = MapRequest {
            sharing: if is_object { Sharing::Shared } else { Sharing::Private },
            ..MapRequest::anonymous(wanted.new_len * PAGE_SIZE as u64)
        };
        mappings.find_room(wish, wanted.new_len, &request, false).map(Destination::range)
    }
}
