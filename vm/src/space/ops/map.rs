//! mmap: new anonymous mappings.
//!
//! A mapping put into a hole is born live, joined with the neighbours it agrees with. One put over others
//! (MAP_FIXED) is born busy (protocol P3): the old ones are marked stale, the busy one takes their place in
//! the index, their entries are cleared and flushed, and only then is it made live. Readers are in the space
//! from the publication on; whoever needs the entries of a busy mapping waits.

use crate::machine::Machine;
use crate::space::Error;
use crate::space::edit::VmaEdit;
use crate::space::{AddressSpace, Held, RangeGuard};
use crate::units::{Access, PageSize, VirtAddr, Vpn, VpnRange};
use crate::vma::{Backing, TreeGaps, VmaAttributes, VmaFlags, VmaState, cut, merge, place, place_preferring};

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

/// A request for anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
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

/// The pages chosen for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space) enum Destination {
    /// Nothing is mapped there.
    Free(VpnRange),
    /// Mappings there are replaced.
    Taken(VpnRange),
}

impl Destination {
    pub fn range(self) -> VpnRange {
        let (Destination::Free(range) | Destination::Taken(range)) = self;
        range
    }
}

impl MapRequest {
    /// Private, readable and writable memory anywhere.
    pub fn anonymous(len_bytes: u64) -> Self {
        Self {
            place: Place::Hint(VirtAddr(0)),
            len_bytes,
            flags: VmaFlags::READ | VmaFlags::WRITE,
            sharing: Sharing::Private,
            populate: false,
        }
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Maps anonymous memory (mmap with MAP_ANONYMOUS). Returns its first address.
    ///
    /// Locks the range to write, and not while it populates. As in Linux it is no error if MAP_POPULATE
    /// cannot fill every page.
    ///
    /// # Errors
    /// In Linux's order: [`Error::Invalid`] for no length or an unaligned fixed address, [`Error::NoMemory`]
    /// for a length that is too large, too many mappings or no room, [`Error::NotPermitted`] below the
    /// space's lowest address, [`Error::Exists`] for a fixed address where a mapping exists,
    /// [`Error::NoMemory`] where the pages cannot be committed, or for lack of memory. Nothing has changed
    /// then, but that a mapping with [`Place::Fixed`] that cannot be committed leaves what it leaves in
    /// Linux: those in its way are split at its ends; and where it was to be shared, they are unmapped.
    pub fn map(&self, request: &MapRequest) -> Result<VirtAddr, Error> {
        let (guard, destination) = self.place(request)?;
        let range = destination.range();
        let attributes = match self.attributes_of(guard.held(), request, destination) {
            Ok(attributes) => attributes,
            Err(error) => return Err(self.refuse_mapping(guard, destination, request, error)),
        };
        if attributes.flags.contains(VmaFlags::HUGE_PAGE) {
            self.note_huge_pages();
        }
        if !attributes.is_anonymous() {
            self.note_shared_huge_pages();
        }
        if let Err(error) = self.put(guard, destination, attributes) {
            self.release_backing(attributes.backing, range);
            return Err(error);
        }
        if request.populate {
            let access = if attributes.flags.contains(VmaFlags::WRITE) && request.sharing == Sharing::Private
            {
                Access::Write
            } else {
                Access::Read
            };
            let _best_effort = self.populate(range, access);
        }
        Ok(range.start.addr())
    }

    /// The address that [`map`](Self::map) would choose now.
    ///
    /// # Errors
    /// As [`map`](Self::map), for errors of the address and the length.
    pub fn choose_place(&self, request: &MapRequest) -> Result<VirtAddr, Error> {
        let guard = self.share_all();
        Ok(self.choose(guard.held(), request)?.range().start.addr())
    }

    /// The pages for a request, checked.
    pub(in crate::space) fn choose(
        &self,
        held: Held<'_>,
        request: &MapRequest,
    ) -> Result<Destination, Error> {
        let len = page_len(request.len_bytes)?;
        self.limits(held).may_map()?;
        if len > self.layout.areas.user.end.0 {
            return Err(Error::NoMemory);
        }
        let (addr, replaces) = match request.place {
            Place::Fixed(addr) => (addr, true),
            Place::FixedNoReplace(addr) => (addr, false),
            Place::Hint(addr) => return self.find_room(addr, len, request.sharing, false),
            Place::Low(addr) => return self.find_room(addr, len, request.sharing, true),
        };
        if addr.0 > self.layout.areas.user.end.addr().0 - len * crate::units::PAGE_SIZE as u64 {
            return Err(Error::NoMemory);
        }
        if !addr.is_page_aligned() {
            return Err(Error::Invalid);
        }
        let range = VpnRange::new(addr.vpn(), addr.vpn().add(len));
        if range.start < self.layout.areas.user.start {
            return Err(Error::NotPermitted);
        }
        match self.first_in(held, range) {
            None => Ok(Destination::Free(range)),
            Some(_) if replaces => Ok(Destination::Taken(range)),
            Some(_) => Err(Error::Exists),
        }
    }

    /// Pages for a mapping that may go anywhere.
    fn find_room(&self, wish: VirtAddr, len: u64, sharing: Sharing, low: bool) -> Result<Destination, Error> {
        let areas = &self.layout.areas;
        let hint = areas.hint(wish);
        let request = if low { areas.low(hint, len) } else { areas.anywhere(hint, len) };
        let request = match sharing {
            Sharing::Private => request.for_private_anonymous(),
            Sharing::Shared => request,
        };
        let reading = self.vm.rcu.read();
        let gaps = TreeGaps(&self.vmas, &reading);
        let start = match sharing {
            Sharing::Shared if self.vm.shared_huge.is_ever() => {
                place_preferring(&gaps, &request, PageSize::Huge)
            }
            _ => place(&gaps, &request),
        };
        let start = start.ok_or(Error::NoMemory)?;
        Ok(Destination::Free(VpnRange::new(start, start.add(len))))
    }

    /// The attributes of the new mapping, its memory committed, its object created.
    fn attributes_of(
        &self,
        held: Held<'_>,
        request: &MapRequest,
        destination: Destination,
    ) -> Result<VmaAttributes, Error> {
        let range = destination.range();
        let flags = VmaFlags::new_anonymous(request.flags);
        match request.sharing {
            Sharing::Private => {
                let attributes = VmaAttributes::anonymous(range, flags);
                if flags.contains(VmaFlags::ACCOUNT) {
                    let committed = if destination == Destination::Free(range) {
                        0
                    } else {
                        self.committed_in(held, range)
                    };
                    self.limits(held).commit(range.len() - committed)?;
                }
                Ok(attributes)
            }
            Sharing::Shared => {
                let flags = VmaFlags::new_shared(request.flags);
                if !flags.contains(VmaFlags::NORESERVE) {
                    self.limits(held).commit(range.len())?;
                }
                let create = || self.vm.create_object(range.len());
                let object = self.vm.or_reclaim(create).ok_or(Error::NoMemory)?;
                Ok(VmaAttributes::backed(range, flags, Backing::Object(object), 0))
            }
        }
    }

    /// Leaves what Linux leaves of the mappings in the way of one whose pages cannot be committed: private
    /// memory is committed after they were split, shared memory after they were unmapped. Returns the error.
    #[cold]
    #[inline(never)]
    fn refuse_mapping(
        &self,
        guard: RangeGuard<'_, M>,
        destination: Destination,
        request: &MapRequest,
        error: Error,
    ) -> Error {
        let Destination::Taken(range) = destination else { return error };
        let left = match request.sharing {
            Sharing::Private => self.split_mappings(&guard, range),
            // There may have been no memory for an object instead.
            Sharing::Shared if self.limits(guard.held()).commit(range.len()).is_ok() => Ok(()),
            Sharing::Shared => self.unmap_range(guard, range).map(drop),
        };
        left.err().unwrap_or(error)
    }

    /// Puts a mapping into the index, over mappings in its range, joined with the neighbours it agrees with.
    /// Unlocks the range.
    pub(in crate::space) fn put(
        &self,
        guard: RangeGuard<'_, M>,
        destination: Destination,
        new: VmaAttributes,
    ) -> Result<(), Error> {
        if let Destination::Taken(_) = destination {
            return self.put_over(guard, new);
        }
        let edit = VmaEdit::new(self, &guard);
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
        let edit = VmaEdit::new(self, &guard);
        let (first, last) = (edit.at(new.range.start), edit.at(Vpn(new.range.end.0 - 1)));
        // As in Linux only a hole in the middle of one mapping counts as a split.
        let is_hole = |vma: VmaAttributes| vma.range.start < new.range.start && new.range.end < vma.range.end;
        if first.is_some_and(is_hole) && !mutant!("map.split-uncounted") {
            self.limits(guard.held()).may_split()?;
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
        let covered = pieces.iter().flatten().fold(merged.attributes.range, |hull, (attributes, _)| {
            VpnRange::new(hull.start.min(attributes.range.start), hull.end.max(attributes.range.end))
        });
        let splits = self.reserve_splits(guard.held(), new.range)?;
        edit.replace(covered, &pieces, new.range)?;
        let guard = self.published(guard, new.range);
        self.split_ends(&guard, new.range, splits);
        self.zap_replaced(&guard, new.range, [prev, next]);
        self.make_live(&guard, new.range.start);
        Ok(())
    }
}

/// Bytes to pages, as Linux rounds a length: zero is invalid, and one that rounds up to nothing is too much.
fn page_len(len_bytes: u64) -> Result<u64, Error> {
    let mask = crate::units::PAGE_SIZE as u64 - 1;
    match len_bytes {
        0 => Err(Error::Invalid),
        _ => len_bytes.checked_add(mask).map(|bytes| bytes >> 12).ok_or(Error::NoMemory),
    }
}
