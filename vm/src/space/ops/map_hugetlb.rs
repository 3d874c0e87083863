//! Mapping the hugetlb pool: memory of huge pages that the program can rely on. (Linux: mmap with
//! MAP_HUGETLB.)
//!
//! ```text
//!   the range, locked to write: place ─► set aside: enough available?
//!                                          ├─ private: mark the entries ─┐
//!                                          └─ shared: make an object ────┴─► publish
//! ```
//!
//! Each entry of a private mapping is marked as one that a huge page is set aside for; the fault that
//! installs one takes it, and what clears the entry before gives it back. So what is set aside is known by
//! page, as in Linux's reserve maps, and by nothing else: munmap of a part, a fork, or the end of the space
//! need not count. Of shared memory the object counts it, since any space may be the one whose fault comes
//! first.
//! docs/design/hugetlb.md.

use super::map::Map;
use super::place::Destination;
use crate::frame::{HugetlbReservation, Priority};
use crate::machine::{Format, Machine};
use crate::space::edit::{VmaEdit, Zap};
use crate::space::{Counter, Error, MapRequest, Place, RangeGuard, Sharing};
use crate::table::mark_reserved;
use crate::units::{PageSize, VpnRange};
use crate::vma::{Backing, HugetlbBacking, VmaAttributes, VmaFlags, VmaState};

impl<'a, M: Machine> Map<'a, '_, M> {
    /// Maps huge pages of the hugetlb pool.
    #[cold]
    #[inline(never)]
    pub(super) fn hugetlb(&self, request: &MapRequest<'_>, size: PageSize) -> Result<VpnRange, Error> {
        let request = rounded::<M::Format>(request, size)?;
        let Self { mappings, entries } = *self;
        let vm = mappings.vm;
        let (guard, range) = self.place_hugetlb(&request, size)?;
        let flags = VmaFlags::new_hugetlb(request.flags);
        let reserves = !flags.contains(VmaFlags::NORESERVE);
        let take = || HugetlbReservation::take(&vm.memory, size, range.len() / size.pages());
        // A fault has a page of an object that has ended, until its read section ends.
        let take_again = || {
            vm.synchronize();
            take()
        };
        let taken = || take().or_else(take_again).ok_or(Error::NoMemory);
        let reserve = if reserves { Some(taken()?) } else { None };
        entries.note_huge_leaves();
        // Empty ones, which other calls have left in the hole: huge leaves take their places.
        entries.gather(guard.token(), range, |gather| entries.free_tables(range, range, gather));
        let result = match request.sharing {
            Sharing::Private => self.put_private_hugetlb(&guard, (range, size), flags, reserve),
            Sharing::Shared => self.put_shared_hugetlb(&guard, (range, size), flags, reserve),
        };
        if result.is_err() {
            let guard = mappings.published(entries, guard, range);
            Zap::of_unmapped(entries).run_published(mappings, &guard, range, [None; 2]);
        }
        result.map(|()| range)
    }

    /// Marks the entries of a range for which huge pages were set aside, and puts a mapping there. Where that
    /// fails, entries that were marked are left so.
    fn put_private_hugetlb(
        &self,
        guard: &RangeGuard<'_, M>,
        (range, size): (VpnRange, PageSize),
        flags: VmaFlags,
        reserve: Option<HugetlbReservation<'_, M>>,
    ) -> Result<(), Error> {
        let vm = self.mappings.vm;
        let reserves = reserve.is_some();
        if let Some(mut reserve) = reserve {
            let marked = mark_reserved(&self.entries.table, range, size, &mut reserve, || {
                vm.count(Counter::TableAlloc);
                vm.retry_after_trim(|| vm.memory.alloc_table(Priority::Normal))
            });
            marked.map_err(|_| Error::NoMemory)?;
        }
        let backing = Backing::Hugetlb(HugetlbBacking { size, reserves, object: None });
        self.put_hugetlb(guard, VmaAttributes::backed(range, flags, backing, 0))
    }

    /// Makes an object that has what was set aside, and puts a mapping of it there.
    fn put_shared_hugetlb(
        &self,
        guard: &RangeGuard<'_, M>,
        (range, size): (VpnRange, PageSize),
        flags: VmaFlags,
        mut reserve: Option<HugetlbReservation<'_, M>>,
    ) -> Result<(), Error> {
        let vm = self.mappings.vm;
        let create = || vm.create_hugetlb_object((size, range.len()), &mut reserve);
        let object = vm.retry_after_trim(create).ok_or(Error::NoMemory)?;
        let backing = Backing::Hugetlb(HugetlbBacking { size, reserves: false, object: Some(object) });
        let attributes = VmaAttributes::backed(range, flags | VmaFlags::SHARED, backing, 0);
        let entered = self.mappings.enter_object(&attributes);
        vm.release_object(object);
        entered?;
        self.put_hugetlb(guard, attributes).inspect_err(|_| self.mappings.leave_object(&attributes))
    }

    fn put_hugetlb(&self, guard: &RangeGuard<'_, M>, attributes: VmaAttributes) -> Result<(), Error> {
        let alone = [Some((attributes, VmaState::Live))];
        VmaEdit::new(self.mappings, guard).replace(attributes.range, &alone, VpnRange::default())
    }

    /// Chooses pages and locks them to write; nothing is mapped there.
    fn place_hugetlb(
        &self,
        request: &MapRequest<'_>,
        size: PageSize,
    ) -> Result<(RangeGuard<'a, M>, VpnRange), Error> {
        let free = |(guard, destination): (_, Destination)| (guard, destination.range());
        match request.place {
            Place::Fixed(addr) | Place::FixedNoReplace(addr)
                if !addr.vpn().0.is_multiple_of(size.pages()) || !addr.is_page_aligned() =>
            {
                Err(Error::Invalid)
            }
            Place::Fixed(addr) => self.mappings.place_in_hole(self.entries, addr, request).map(free),
            Place::FixedNoReplace(_) => self.mappings.place(request).map(free),
            Place::Hint(addr) => self.mappings.place_aligned(addr, request, size, false),
            Place::Low(addr) => self.mappings.place_aligned(addr, request, size, true),
        }
    }
}

/// The request with its length in whole pages of `size`, which the format has.
fn rounded<'a, F: Format>(request: &MapRequest<'a>, size: PageSize) -> Result<MapRequest<'a>, Error> {
    let is_huge = size != PageSize::Base && size.level() <= F::ROOT;
    if !is_huge || request.len_bytes == 0 {
        return Err(Error::Invalid);
    }
    let len_bytes = request.len_bytes.checked_next_multiple_of(size.bytes()).ok_or(Error::NoMemory)?;
    Ok(MapRequest { len_bytes, ..*request })
}
