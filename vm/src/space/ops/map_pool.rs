//! Mapping the reserved pool: memory of huge pages that the program can rely on. (Linux: mmap with
//! MAP_HUGETLB.)
//!
//! ```text
//!   the range, locked to write: place ─► set aside: enough available?
//!                                          ├─ private: mark the entries ─┐
//!                                          └─ shared: make an object ────┴─► publish
//! ```
//!
//! Each entry of a private mapping is marked as one that a huge page is set aside for; the fault that
//! installs one takes it, and whoever clears the entry before gives it back. So what is set aside is known by
//! page, as in Linux's reserve maps, and by nothing else: munmap of a part, a fork, or the end of the space
//! need not count. Of shared memory the object counts it, since any space may be the one whose fault comes
//! first.
//! docs/design/reserved-pool.md.

use crate::frame::{HugeReserve, Priority};
use crate::machine::{Format, Machine};
use crate::space::edit::VmaEdit;
use crate::space::{AddressSpace, Counter, Destination, Error, MapRequest, Place, RangeGuard, Sharing};
use crate::table::mark_reserved;
use crate::units::{Access, PAGE_SIZE, PageSize, VirtAddr, Vpn, VpnRange};
use crate::vma::{Backing, HugetlbBacking, TreeGaps, VmaAttributes, VmaFlags, VmaState, place_aligned};

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Maps memory of huge pages of the reserved pool, of this size: private, or shared with the children of
    /// forks. Returns its first address. The length is rounded up to such pages.
    ///
    /// A huge page is set aside for each page, so that no fault there lacks one, but with
    /// [`VmaFlags::NORESERVE`]: then a fault may end with
    /// [`FaultError::PoolEmpty`](crate::space::FaultError::PoolEmpty), a bus error. Such memory is never
    /// swapped, split or counted as committed. A child that is forked shares the huge pages of private memory
    /// until one of the two stores there, which takes a copy: a huge page that is not set aside, and where
    /// there is none a bus error. This space may take the page from its children then
    /// ([`take_back_pool_page`](Self::take_back_pool_page)). Shared memory keeps its huge pages, and what is
    /// set aside for it, until nobody maps a page of it.
    ///
    /// munmap, mprotect, madvise and mbind refuse ranges that cut a huge page.
    ///
    /// Locks the range to write, and the whole of it while entries of private memory are marked: some
    /// nanoseconds for each.
    ///
    /// # Errors
    /// As [`map`](Self::map); and [`Error::Invalid`] for base pages, pages that the format does not have, and
    /// a fixed address that is not one of a huge page; [`Error::NoMemory`] where not enough huge pages are
    /// available, or no memory for tables or an object. With [`Place::Fixed`] the pages are unmapped first,
    /// and stay so then.
    pub fn map_huge_pool(&self, request: &MapRequest, size: PageSize) -> Result<VirtAddr, Error> {
        let request = rounded::<M::Format>(request, size)?;
        let (guard, range) = self.place_huge_pool(&request, size)?;
        let flags = VmaFlags::new_pool(request.flags);
        let reserves = !flags.contains(VmaFlags::NORESERVE);
        let take = || HugeReserve::take(&self.vm.memory, size, range.len() / size.pages());
        // A fault has a page of an object that has ended, until its read section ends.
        let take_again = || {
            self.vm.settle();
            take()
        };
        let taken = || take().or_else(take_again).ok_or(Error::NoMemory);
        let reserve = if reserves { Some(taken()?) } else { None };
        self.entries.note_huge_leaves();
        // Empty ones, which other calls have left in the hole.
        self.free_tables_in(guard.held(), range);
        let result = match request.sharing {
            Sharing::Private => self.put_private_pool(&guard, (range, size), flags, reserve),
            Sharing::Shared => self.put_shared_pool(&guard, (range, size), flags, reserve),
        };
        if result.is_err() {
            let guard = self.published(guard, range);
            self.zap_and_free_tables(&guard, range, [None; 2]);
            return result.map(|()| range.start.addr());
        }
        drop(guard);
        if request.populate {
            let is_writable = flags.contains(VmaFlags::WRITE);
            let _best_effort = self.populate(range, if is_writable { Access::Write } else { Access::Read });
        }
        Ok(range.start.addr())
    }

    /// Marks the entries of a range for which huge pages were set aside, and puts a mapping there. Where that
    /// fails, entries that were marked are left so.
    fn put_private_pool(
        &self,
        guard: &RangeGuard<'_, M>,
        (range, size): (VpnRange, PageSize),
        flags: VmaFlags,
        reserve: Option<HugeReserve<'_, M>>,
    ) -> Result<(), Error> {
        let vm = self.vm;
        let reserves = reserve.is_some();
        if let Some(mut reserve) = reserve {
            let marked = mark_reserved(&self.entries.table, range, size, &mut reserve, || {
                vm.count(Counter::TableAlloc);
                vm.or_reclaim(|| vm.memory.alloc_table(Priority::Normal))
            });
            marked.map_err(|_| Error::NoMemory)?;
        }
        let backing = Backing::Hugetlb(HugetlbBacking { size, reserves, object: None });
        self.put_pool(guard, VmaAttributes::backed(range, flags, backing, 0))
    }

    /// Makes an object that has what was set aside, and puts a mapping of it there.
    fn put_shared_pool(
        &self,
        guard: &RangeGuard<'_, M>,
        (range, size): (VpnRange, PageSize),
        flags: VmaFlags,
        mut reserve: Option<HugeReserve<'_, M>>,
    ) -> Result<(), Error> {
        let create = || self.vm.create_pool_object((size, range.len()), &mut reserve);
        let object = self.vm.or_reclaim(create).ok_or(Error::NoMemory)?;
        let backing = Backing::Hugetlb(HugetlbBacking { size, reserves: false, object: Some(object) });
        let attributes = VmaAttributes::backed(range, flags | VmaFlags::SHARED, backing, 0);
        self.put_pool(guard, attributes).inspect_err(|_| self.release_backing(backing.into(), range))
    }

    fn put_pool(&self, guard: &RangeGuard<'_, M>, attributes: VmaAttributes) -> Result<(), Error> {
        let alone = [Some((attributes, VmaState::Live))];
        VmaEdit::new(self, guard).replace(attributes.range, &alone, VpnRange::default())
    }

    /// Chooses pages and locks them to write; nothing is mapped there.
    fn place_huge_pool(
        &self,
        request: &MapRequest,
        size: PageSize,
    ) -> Result<(RangeGuard<'_, M>, VpnRange), Error> {
        let free = |(guard, destination): (_, Destination)| (guard, destination.range());
        match request.place {
            Place::Fixed(addr) | Place::FixedNoReplace(addr)
                if !addr.vpn().0.is_multiple_of(size.pages()) || !addr.is_page_aligned() =>
            {
                Err(Error::Invalid)
            }
            Place::Fixed(addr) => self.place_in_hole(addr, request).map(free),
            Place::FixedNoReplace(_) => self.place(request).map(free),
            Place::Hint(addr) => self.find_aligned_room(addr, request, size, false),
            Place::Low(addr) => self.find_aligned_room(addr, request, size, true),
        }
    }

    fn find_aligned_room(
        &self,
        wish: VirtAddr,
        request: &MapRequest,
        size: PageSize,
        low: bool,
    ) -> Result<(RangeGuard<'_, M>, VpnRange), Error> {
        let all = self.write_all();
        self.limits(all.held()).may_map()?;
        let (areas, len) = (&self.layout.areas, request.len_bytes / PAGE_SIZE as u64);
        if len > areas.user.end.0 {
            return Err(Error::NoMemory);
        }
        let hint = areas.hint(wish).map(|page| Vpn(page.0.next_multiple_of(size.pages())));
        let wanted = if low { areas.low(hint, len) } else { areas.anywhere(hint, len) };
        let reading = self.vm.rcu.read();
        let start = place_aligned(&TreeGaps(&self.vmas, &reading), &wanted, size).ok_or(Error::NoMemory)?;
        drop(reading);
        let range = VpnRange::new(start, start.add(len));
        Ok((all.narrow(range), range))
    }
}

/// The request with its length in whole pages of `size`, which the format has.
fn rounded<F: Format>(request: &MapRequest, size: PageSize) -> Result<MapRequest, Error> {
    let is_huge = size != PageSize::Base && size.level() <= F::ROOT;
    if !is_huge || request.len_bytes == 0 {
        return Err(Error::Invalid);
    }
    let len_bytes = request.len_bytes.checked_next_multiple_of(size.bytes()).ok_or(Error::NoMemory)?;
    Ok(MapRequest { len_bytes, ..*request })
}
