//! PFN mappings: registers of a device, a guest's memory. (Linux: `remap_pfn_range`, `VM_PFNMAP`.)
//!
//! ```text
//!   the range, locked to write: choose a place ─► leaves, the largest that fit ─► publish the mapping
//! ```
//!
//! All entries are there before the mapping is, and as long as it is: no fault ever brings a page. A fault
//! gives rights back that mprotect took, as for any page. The entries own nothing; what the frames hold is
//! up to the caller that made them. As in Linux such a mapping is not merged with others, and MADV_DONTNEED
//! refuses it.

use super::map::Map;
use super::place::Destination;
use crate::frame::Priority;
use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{VmaEdit, Zap};
use crate::space::{Counter, Error, MapRequest, Place, RangeGuard, Sharing};
use crate::table::{LeafBits, PfnMapFrames, check_frames, install_pfn_leaves};
use crate::units::{PAGE_SIZE, PageSize, Pfn, PfnRange, Rights, Vpn, VpnRange};
use crate::vma::{Backing, PfnBacking, VmaAttributes, VmaFlags, VmaState};

impl<'a, M: Machine> Map<'a, '_, M> {
    /// Maps PFN-mapped frames, from `first` on, by leaves of at most the size `largest`.
    #[cold]
    #[inline(never)]
    pub(super) fn pfn(
        &self,
        request: &MapRequest<'_>,
        pfnmap: &PfnMapFrames,
        first: Pfn,
        largest: PageSize,
    ) -> Result<VpnRange, Error> {
        let flags = pfn_flags(request, pfnmap)?;
        // Before anything is unmapped: a request that cannot be met changes nothing.
        let len = request.len_bytes.div_ceil(PAGE_SIZE as u64);
        let frames = PfnRange { start: first, end: Pfn(first.0.saturating_add(len)) };
        let bits = LeafBits { cache: pfnmap.cache(), ..LeafBits::new(flags.rights()) };
        for size in [PageSize::Base, largest] {
            check_frames::<M::Format>(pfnmap, frames, size, bits).map_err(|_| Error::Invalid)?;
        }
        let (guard, range) = self.place_pfn(request, first, largest)?;
        let backing = Backing::Pfn(PfnBacking { cache: pfnmap.cache(), largest });
        let vma = VmaAttributes::backed(range, flags, backing, first.0);
        let Self { mappings, entries } = *self;
        entries.note_huge_leaves();
        let mut result = entries.install_leaves(&vma);
        if result.is_ok() {
            let alone = [Some((vma, VmaState::Live))];
            result = VmaEdit::new(mappings, &guard).replace(range, &alone, VpnRange::default());
        }
        if result.is_err() && !mutant!("map-given.refused-left-mapped") {
            let guard = mappings.published(entries, guard, range);
            Zap::of_unmapped(entries).run_published(mappings, &guard, range, [None; 2]);
        }
        result.map(|()| range)
    }

    /// Chooses pages and locks them to write; nothing is mapped there.
    fn place_pfn(
        &self,
        request: &MapRequest<'_>,
        first: Pfn,
        largest: PageSize,
    ) -> Result<(RangeGuard<'a, M>, VpnRange), Error> {
        let free = |(guard, destination): (_, Destination)| (guard, destination.range());
        match request.place {
            Place::Fixed(addr) => self.mappings.place_in_hole(self.entries, addr, request).map(free),
            Place::FixedNoReplace(_) => self.mappings.place(request).map(free),
            Place::Hint(_) | Place::Low(_) => self
                .place_as_frames(request, first, largest)
                .or_else(|_| self.mappings.place(request).map(free)),
        }
    }

    /// As [`Mappings::place`](crate::space::edit::Mappings::place), at an address that lies as the frame does
    /// in a leaf of the largest size that fits in.
    fn place_as_frames(
        &self,
        request: &MapRequest<'_>,
        first: Pfn,
        largest: PageSize,
    ) -> Result<(RangeGuard<'a, M>, VpnRange), Error> {
        let fits = |size: &PageSize| *size <= largest && size.bytes() <= request.len_bytes;
        let size = [PageSize::Giant, PageSize::Huge].into_iter().find(fits).unwrap_or(PageSize::Base);
        let len_bytes = request.len_bytes.checked_add(size.bytes()).ok_or(Error::NoMemory)?;
        let padding = if size == PageSize::Base { request.len_bytes } else { len_bytes };
        let (guard, destination) = self.mappings.place(&MapRequest { len_bytes: padding, ..*request })?;
        let wide = destination.range();
        let shift = first.0.wrapping_sub(wide.start.0) & (size.pages() - 1);
        let len = wide.len() - if size == PageSize::Base { 0 } else { size.pages() };
        let start = Vpn(wide.start.0 + shift);
        let range = VpnRange::new(start, start.add(len));
        Ok((guard.narrow(range), range))
    }
}

impl<M: Machine> Entries<'_, M> {
    /// Fills the pages of a PFN mapping, which holds no entry yet. What was installed before an
    /// error stays.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn install_leaves(&self, vma: &VmaAttributes) -> Result<(), Error> {
        let Some((PfnBacking { cache, largest }, first)) = vma.pfn_mapping() else { return Ok(()) };
        let rights = vma.rights();
        let shown = if rights.contains(Rights::READ) { rights } else { Rights::empty() };
        let bits = LeafBits { cache, ..LeafBits::new(shown).used(rights.contains(Rights::WRITE)) };
        let mut mapped = VpnRange { start: vma.range.start, end: vma.range.start };
        let vm = self.vm;
        install_pfn_leaves(&self.table, vma.range, first, (bits, largest), &mut mapped, || {
            vm.count(Counter::TableAlloc);
            vm.retry_after_trim(|| vm.memory.alloc_table(Priority::Normal))
        })
        .map_err(|_| Error::NoMemory)
    }
}

/// The flags of the mapping: mprotect may ask for what the frames allow.
fn pfn_flags(request: &MapRequest<'_>, pfnmap: &PfnMapFrames) -> Result<VmaFlags, Error> {
    if request.sharing != Sharing::Shared {
        return Err(Error::Invalid);
    }
    let asked = VmaFlags::new_shared(request.flags) | VmaFlags::DONT_DUMP;
    let may = |flag: VmaFlags, right| if pfnmap.rights().contains(right) { VmaFlags::empty() } else { flag };
    let denied = may(VmaFlags::MAY_READ, Rights::READ)
        | may(VmaFlags::MAY_WRITE, Rights::WRITE)
        | may(VmaFlags::MAY_EXECUTE, Rights::EXECUTE);
    let flags = asked - denied;
    let is_allowed = pfnmap.rights().contains(flags.rights()) && flags.with_access(flags).is_some();
    if is_allowed { Ok(flags) } else { Err(Error::Access) }
}
