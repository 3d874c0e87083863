//! mmap: requests, and mappings of anonymous memory and of objects.
//!
//! A request says what it maps ([`MapBacking`]); `map_object`, `map_hugetlb` and `map_pfn` put
//! what is no anonymous memory in place.
//!
//! A mapping put into a hole is born live, joined with the neighbours it agrees with. One put over others
//! (MAP_FIXED) is born busy (protocol P3): the old ones are marked stale, the busy one takes their place in
//! the index, their entries are cleared and flushed, and only then is it made live. Readers are in the space
//! from the publication on; a caller that needs the entries of a busy mapping waits.

use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, Split, VmaEdit, Zap};
use crate::space::ops::place::Destination;
use crate::space::ops::populate::Populate;
use crate::space::ops::unmap::Unmap;
use crate::space::{AddressSpace, Error, ObjectPages, RangeGuard, RangeToken};
use crate::table::PfnMapFrames;
use crate::units::{Access, PageSize, Pfn, VirtAddr, Vpn, VpnRange};
use crate::vma::{Backing, VmaAttributes, VmaFlags, VmaState, cut, merge};

/// Whether writes to a mapping are seen elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// Writes stay in the space: pages are copied when they are written (MAP_PRIVATE).
    Private,
    /// Writes are seen through every mapping of the same memory (MAP_SHARED).
    Shared,
}

/// Where a mapping is to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Anywhere; at this address if it is free there. 0 is no hint.
    Hint(VirtAddr),
    /// Here, over all mappings in the range (MAP_FIXED).
    Fixed(VirtAddr),
    /// Here, if there is no mapping (MAP_FIXED_NOREPLACE).
    FixedNoReplace(VirtAddr),
    /// Anywhere in the lowest 2 GiB (MAP_32BIT); at this address if it is free there.
    Low(VirtAddr),
}

/// What a request maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MapBacking<'a> {
    /// Zeros: memory of the mapping's own, or, where the request is for shared memory, of an object that is
    /// made for it and lives as long as a page of it is mapped.
    #[default]
    Anonymous,
    /// Pages of an object, from one on ([`ObjectHandle::at_page`](crate::space::ObjectHandle::at_page)).
    /// Where the request is for private memory, a page is copied when it is stored to (MAP_PRIVATE of a
    /// file); such memory has no huge pages. Pages beyond the object's end may be mapped, and not be used:
    /// a fault there ends with [`FaultError::Beyond`](crate::space::FaultError::Beyond), a bus error.
    Object(ObjectPages<'a>),
    /// Huge pages of the hugetlb pool, of this size: private, or shared with the children of forks
    /// (MAP_HUGETLB). The length is rounded up to such pages.
    ///
    /// A huge page is set aside for each page, so that no fault there lacks one, but with
    /// [`VmaFlags::NORESERVE`]: then a fault may end with
    /// [`FaultError::HugetlbEmpty`](crate::space::FaultError::HugetlbEmpty), a bus error. Such memory is not
    /// swapped, split or counted as committed. A child that is forked shares the huge pages of private memory
    /// until one of the two stores there, which takes a copy: a huge page that is not set aside, and where
    /// there is none a bus error. The parent may unmap the page from its children then
    /// ([`AddressSpace::unmap_hugetlb_sharers`]). Shared memory keeps its huge pages, and what is set aside
    /// for it, until no page of it is mapped.
    ///
    /// munmap, mprotect, madvise and mbind refuse ranges that cut a huge page.
    Hugetlb(PageSize),
    /// PFN-mapped frames, by leaves that are there from the start: registers of a device, memory of a
    /// guest. The request is for shared memory. Where it leaves the place open, that is chosen so that leaves
    /// of the largest size fit. A fork maps the frames in the child too. (Linux: `remap_pfn_range`.)
    Pfn {
        /// The frames, and the rights to them.
        frames: &'a PfnMapFrames,
        /// The one that the first page maps.
        first: Pfn,
        /// The size of the largest leaf.
        largest: PageSize,
    },
}

/// A request for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest<'a> {
    /// What it maps.
    pub backing: MapBacking<'a>,
    /// Where.
    pub place: Place,
    /// Bytes, rounded up to pages.
    pub len_bytes: u64,
    /// What the mapping allows, NORESERVE, GROWS_DOWN, and advice. Flags outside of
    /// [`VmaFlags::REQUESTABLE`] are dropped.
    pub flags: VmaFlags,
    /// Whether writes are seen elsewhere.
    pub sharing: Sharing,
    /// Whether pages are made present before the call returns (MAP_POPULATE).
    pub populate: bool,
}

impl MapRequest<'_> {
    /// Private, readable and writable memory of zeros anywhere.
    pub fn anonymous(len_bytes: u64) -> Self {
        Self {
            backing: MapBacking::Anonymous,
            place: Place::Hint(VirtAddr(0)),
            len_bytes,
            flags: VmaFlags::READ | VmaFlags::WRITE,
            sharing: Sharing::Private,
            populate: false,
        }
    }

    /// The same request, for this memory.
    pub fn backed_by<'a>(self, backing: MapBacking<'a>) -> MapRequest<'a> {
        let Self { backing: _, place, len_bytes, flags, sharing, populate } = self;
        MapRequest { backing, place, len_bytes, flags, sharing, populate }
    }

    /// The access with which MAP_POPULATE makes pages present; `None` where they are there from the start.
    fn access_to_populate(&self) -> Option<Access> {
        let takes_memory = match self.backing {
            MapBacking::Anonymous | MapBacking::Object(_) => self.sharing == Sharing::Private,
            MapBacking::Hugetlb(_) => true,
            MapBacking::Pfn { .. } => return None,
        };
        let is_written = takes_memory && self.flags.contains(VmaFlags::WRITE);
        Some(if is_written { Access::Write } else { Access::Read })
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Maps what the request says (mmap). Returns the first address.
    ///
    /// Locks the range to write, and not while it populates; also while it installs the leaves of PFN-mapped
    /// frames, and marks the entries of private memory of the hugetlb pool: some nanoseconds for each.
    /// As in Linux it is no error if MAP_POPULATE cannot fill every page.
    ///
    /// # Errors
    /// In Linux's order: [`Error::Invalid`] for no length or an unaligned fixed address, [`Error::NoMemory`]
    /// for a length that is too large, too many mappings or no room, [`Error::NotPermitted`] below the
    /// space's lowest address, [`Error::Exists`] for a fixed address where a mapping exists,
    /// [`Error::NoMemory`] where the pages cannot be committed, or for lack of memory. Nothing has changed
    /// then, but that a mapping with [`Place::Fixed`] that cannot be committed leaves what it leaves in
    /// Linux: those in its way are split at its ends; and where it was to be shared, they are unmapped.
    ///
    /// Of an *object*, after those of the length: [`Error::Invalid`] where the object is of another system,
    /// or no number counts the last page.
    ///
    /// Of the *hugetlb pool*: [`Error::Invalid`] also for base pages, pages that the format does not have,
    /// and a fixed address that is not one of a huge page; [`Error::NoMemory`] where not enough huge pages
    /// are available, or no memory for tables or an object. With [`Place::Fixed`] the pages are unmapped
    /// first, and stay so then.
    ///
    /// Of *PFN-mapped frames*: [`Error::Invalid`] also where the request is for private memory, or the
    /// frames are not all there, or not to be encoded; [`Error::Access`] where the request, or what it lets
    /// mprotect ask for, exceeds the rights that they allow; [`Error::NoMemory`] for tables. With
    /// [`Place::Fixed`] the pages are unmapped first, and stay so where memory lacks.
    pub fn map(&self, request: &MapRequest<'_>) -> Result<VirtAddr, Error> {
        let map = Map { mappings: &self.mappings, entries: &self.entries };
        let range = match request.backing {
            MapBacking::Anonymous => map.anonymous(request)?,
            MapBacking::Object(pages) => map.object(request, pages)?,
            MapBacking::Hugetlb(size) => map.hugetlb(request, size)?,
            MapBacking::Pfn { frames, first, largest } => map.pfn(request, frames, first, largest)?,
        };
        if request.populate
            && let Some(access) = request.access_to_populate()
        {
            let _best_effort = Populate { space: self }.run(range, access);
        }
        Ok(range.start.addr())
    }

    /// The address that [`map`](Self::map) would choose now for memory of base pages: what the size of
    /// hugetlb pages, or of leaves of PFN-mapped frames, asks of an address is not looked at.
    ///
    /// # Errors
    /// As [`map`](Self::map), for errors of the address and the length.
    pub fn choose_place(&self, request: &MapRequest<'_>) -> Result<VirtAddr, Error> {
        let guard = self.mappings.read_all();
        Ok(self.mappings.choose(guard.token(), request)?.range().start.addr())
    }
}

/// Putting a mapping into a space.
pub(super) struct Map<'a, 'v, M: Machine> {
    pub mappings: &'a Mappings<'v, M>,
    pub entries: &'a Entries<'v, M>,
}

impl<M: Machine> Map<'_, '_, M> {
    fn anonymous(&self, request: &MapRequest<'_>) -> Result<VpnRange, Error> {
        let (guard, destination) = self.mappings.place(request)?;
        let range = destination.range();
        let attributes = match self.attributes_of(guard.token(), request, destination) {
            Ok(attributes) => attributes,
            Err(error) => return Err(self.refuse_mapping(guard, destination, request, error)),
        };
        if attributes.flags.contains(VmaFlags::HUGE_PAGE) {
            self.entries.note_huge_pages();
        }
        if !attributes.is_anonymous() {
            self.entries.note_shared_huge_pages();
        }
        self.put(guard, destination, attributes)?;
        Ok(range)
    }

    /// The attributes of the new mapping, its memory committed, its object created.
    fn attributes_of(
        &self,
        token: RangeToken<'_>,
        request: &MapRequest<'_>,
        destination: Destination,
    ) -> Result<VmaAttributes, Error> {
        let range = destination.range();
        let flags = VmaFlags::new_anonymous(request.flags);
        match request.sharing {
            Sharing::Private => {
                self.commit_private(token, flags, destination)?;
                Ok(VmaAttributes::anonymous(range, flags))
            }
            Sharing::Shared => {
                let flags = VmaFlags::new_shared(request.flags);
                if !flags.contains(VmaFlags::NORESERVE) {
                    self.mappings.limits(token).commit(range.len())?;
                }
                let vm = self.mappings.vm;
                let create = || vm.create_object(range.len());
                let object = vm.retry_after_trim(create).ok_or(Error::NoMemory)?;
                let attributes = VmaAttributes::backed(range, flags, Backing::Object(object), 0);
                let entered = self.mappings.enter_object(&attributes);
                vm.release_object(object);
                entered.map(|()| attributes)
            }
        }
    }

    /// Commits the pages of a new private mapping with these flags, where they count: but for those that
    /// mappings in its way have committed.
    #[inline(always)]
    pub(super) fn commit_private(
        &self,
        token: RangeToken<'_>,
        flags: VmaFlags,
        destination: Destination,
    ) -> Result<(), Error> {
        if !flags.contains(VmaFlags::ACCOUNT) {
            return Ok(());
        }
        let committed = match destination {
            Destination::Free(_) => 0,
            Destination::Taken(range) => self.mappings.committed_in(token, range),
        };
        self.mappings.limits(token).commit(destination.range().len() - committed)
    }

    /// Leaves what Linux leaves of the mappings in the way of one whose pages cannot be committed: private
    /// memory is committed after they were split, shared memory after they were unmapped. Returns the error.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_mapping(
        &self,
        guard: RangeGuard<'_, M>,
        destination: Destination,
        request: &MapRequest<'_>,
        error: Error,
    ) -> Error {
        let Destination::Taken(range) = destination else { return error };
        let left = match request.sharing {
            Sharing::Private => self.mappings.split_mappings(&guard, range),
            // There may have been no memory for an object instead.
            Sharing::Shared
                if VmaFlags::new_shared(request.flags).contains(VmaFlags::NORESERVE)
                    || self.mappings.limits(guard.token()).commit(range.len()).is_ok() =>
            {
                Ok(())
            }
            Sharing::Shared => {
                let Self { mappings, entries } = *self;
                Unmap { mappings, entries }.run(guard, range).map(drop)
            }
        };
        left.err().unwrap_or(error)
    }

    /// Puts a mapping, whose object has [entered](Mappings::enter_object) its pages, into the index, over
    /// mappings in its range, joined with the neighbours it agrees with. Unlocks the range.
    pub(super) fn put(
        &self,
        guard: RangeGuard<'_, M>,
        destination: Destination,
        new: VmaAttributes,
    ) -> Result<(), Error> {
        self.try_put(guard, destination, new).inspect_err(|_| {
            if !mutant!("map-shared.count-kept") {
                self.mappings.leave_object(&new);
            }
        })
    }

    fn try_put(
        &self,
        guard: RangeGuard<'_, M>,
        destination: Destination,
        new: VmaAttributes,
    ) -> Result<(), Error> {
        if let Destination::Taken(_) = destination {
            return self.put_over(guard, new);
        }
        let edit = VmaEdit::new(self.mappings, &guard);
        let next = edit.at(new.range.end);
        let merged = merge(edit.ending_at(new.range.start), new, next);
        edit.replace(
            merged.attributes.range,
            &[Some((merged.attributes, VmaState::Live))],
            VpnRange::default(),
        )
    }

    /// P3: busy while the entries of the replaced mappings are cleared.
    fn put_over(&self, guard: RangeGuard<'_, M>, new: VmaAttributes) -> Result<(), Error> {
        let edit = VmaEdit::new(self.mappings, &guard);
        let (first, last) = (edit.at(new.range.start), edit.at(Vpn(new.range.end.0 - 1)));
        // As in Linux only a hole in the middle of one mapping counts as a split.
        let is_hole = |vma: VmaAttributes| vma.range.start < new.range.start && new.range.end < vma.range.end;
        if first.is_some_and(is_hole) && !mutant!("map.split-uncounted") {
            self.mappings.limits(guard.token()).may_split()?;
        }
        if [first, last].iter().flatten().any(|vma| !vma.may_be_cut(new.range)) {
            return Err(Error::Invalid);
        }
        let left = first.and_then(|vma| cut(&vma, new.range)[0]);
        let right = last.and_then(|vma| cut(&vma, new.range)[1]);
        let prev = left.or_else(|| edit.ending_at(new.range.start));
        let next = right.or_else(|| edit.at(new.range.end));
        let merged = merge(prev, new, next);
        let stays = |piece: Option<VmaAttributes>, absorbed: bool| {
            piece.filter(|_| !absorbed).map(|attributes| (attributes, VmaState::Live))
        };
        let state = if mutant!("map.born-live") { VmaState::Live } else { VmaState::Busy };
        let busy = Some((merged.attributes, state));
        let pieces = [stays(left, merged.absorbs_prev), busy, stays(right, merged.absorbs_next)];
        let covered = pieces.iter().flatten().fold(merged.attributes.range, |span, (attributes, _)| {
            VpnRange::new(span.start.min(attributes.range.start), span.end.max(attributes.range.end))
        });
        let Self { mappings, entries } = *self;
        let splits = Split::new(entries).reserve(guard.token(), new.range)?;
        edit.replace(covered, &pieces, new.range)?;
        let guard = mappings.published(entries, guard, new.range);
        Split::new(entries).ends(guard.token(), new.range, splits);
        let zap = Zap::of_unmapped(entries);
        if mutant!("map.tables-kept") {
            zap.run_in_hole(&guard, new.range, None);
        } else {
            // Tables go too: the first touch finds none where it could have a huge page.
            zap.run_published(mappings, &guard, new.range, [prev, next]);
        }
        mappings.make_live(guard.token(), new.range.start);
        Ok(())
    }
}
