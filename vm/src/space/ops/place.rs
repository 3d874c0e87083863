//! Where a mapping goes: the place that a request wants, checked, or room for it.

use crate::machine::Machine;
use crate::space::edit::Mappings;
use crate::space::edit::entries::Entries;
use crate::space::ops::unmap::Unmap;
use crate::space::{Error, MapBacking, MapRequest, Place, RangeGuard, RangeToken, Sharing};
use crate::sync::{NoProgress, Progress, Retry};
use crate::units::{PAGE_SIZE, PageSize, VirtAddr, Vpn, VpnRange};
use crate::vma::{TreeGaps, place, place_aligned, place_preferring};

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

impl<M: Machine> Mappings<'_, M> {
    /// Chooses the pages for a request and locks them to write, as one step: no other writer maps pages there
    /// before the guard is dropped.
    #[inline]
    pub fn place(&self, request: &MapRequest<'_>) -> Result<(RangeGuard<'_, M>, Destination), Error> {
        // Choosing reads the holes of the whole space; only the chosen range is held.
        let all = self.write_all();
        let destination = self.choose(all.token(), request)?;
        Ok((all.narrow(destination.range()), destination))
    }

    /// The pages for a request, checked.
    pub fn choose(&self, token: RangeToken<'_>, request: &MapRequest<'_>) -> Result<Destination, Error> {
        let len = page_len(request.len_bytes)?;
        self.limits(token).may_map()?;
        if len > self.layout.areas.user.end.0 {
            return Err(Error::NoMemory);
        }
        let (addr, replaces) = match request.place {
            Place::Fixed(addr) => (addr, true),
            Place::FixedNoReplace(addr) => (addr, false),
            Place::Hint(addr) => return self.find_room(addr, len, request, false),
            Place::Low(addr) => return self.find_room(addr, len, request, true),
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
        match self.first_in(token, range) {
            None => Ok(Destination::Free(range)),
            Some(_) if replaces => Ok(Destination::Taken(range)),
            Some(_) => Err(Error::Exists),
        }
    }

    /// Pages for a mapping that may go anywhere: at `wish`, if they are free there.
    pub(super) fn find_room(
        &self,
        wish: VirtAddr,
        len: u64,
        request: &MapRequest<'_>,
        low: bool,
    ) -> Result<Destination, Error> {
        let areas = &self.layout.areas;
        let hint = areas.hint(wish);
        // An object's place is the same, whichever space sees what is stored there.
        let is_object =
            request.sharing == Sharing::Shared || matches!(request.backing, MapBacking::Object(_));
        let wanted = if low { areas.low(hint, len) } else { areas.anywhere(hint, len) };
        let wanted = if is_object { wanted } else { wanted.for_private_anonymous() };
        let reading = self.vm.rcu.read();
        let gaps = TreeGaps(&self.vmas, &reading);
        let start = if is_object && self.vm.shared_huge.is_ever() {
            place_preferring(&gaps, &wanted, PageSize::Huge)
        } else {
            place(&gaps, &wanted)
        };
        let start = start.ok_or(Error::NoMemory)?;
        Ok(Destination::Free(VpnRange::new(start, start.add(len))))
    }

    /// As [`place`](Self::place), anywhere from `wish` on, at an address that is one of a page of `size`;
    /// the length is one of such pages.
    pub fn place_aligned(
        &self,
        wish: VirtAddr,
        request: &MapRequest<'_>,
        size: PageSize,
        low: bool,
    ) -> Result<(RangeGuard<'_, M>, VpnRange), Error> {
        let all = self.write_all();
        self.limits(all.token()).may_map()?;
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

    /// Unmaps what lies where the request wants its pages, and locks them to write: nothing is mapped there.
    pub fn place_in_hole<'a>(
        &'a self,
        entries: &'a Entries<'_, M>,
        addr: VirtAddr,
        request: &MapRequest<'_>,
    ) -> Result<(RangeGuard<'a, M>, Destination), Error> {
        let place = Place::FixedNoReplace(addr);
        let mut retry = Retry::new("place-in-hole");
        loop {
            match self.place(&MapRequest { place, ..*request }) {
                Err(Error::Exists) => {}
                placed if !retry.is_withheld() => return placed,
                _ => {}
            }
            // Again, should another thread map something there in between.
            let range = self.layout.user_range(addr, request.len_bytes).ok_or(Error::Invalid)?;
            let is_any_mapped = self.first_in_racy(range).is_some();
            Unmap { mappings: self, entries }.run(self.write(range), range)?;
            let progress = if is_any_mapped { Progress::Observed } else { Progress::None };
            retry.again::<M::Cpu>(progress).map_err(|NoProgress| Error::NoMemory)?;
        }
    }
}

/// Bytes to pages, as Linux rounds a length: zero is invalid, and one that rounds up to nothing is too much.
pub(in crate::space) fn page_len(len_bytes: u64) -> Result<u64, Error> {
    let mask = crate::units::PAGE_SIZE as u64 - 1;
    match len_bytes {
        0 => Err(Error::Invalid),
        _ => len_bytes.checked_add(mask).map(|bytes| bytes >> 12).ok_or(Error::NoMemory),
    }
}
