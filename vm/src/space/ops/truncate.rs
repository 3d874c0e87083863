//! Truncation of an object, and holes in it: its pages go, and every space loses them.
//!
//! ```text
//!   the new length is set ─► pages are taken out of the object ─► each view: lock the range, clear, flush
//!        no fault fills beyond it      no fault maps what has gone (P12)
//! ```
//!
//! A page that is mapped stays as long as entries map it, with their own reference: what the object had is
//! put as it is taken out. A fault that has found the page before asks again under its table's lock: either
//! it finds the page gone, or the sweep, which takes that lock later, finds the fault's entry. A view that is
//! made meanwhile is the last of the list, so the walk meets it, or its mapping is younger than what was
//! taken out.
//!
//! Truncation takes private copies beyond the end, too: a page there is a bus error. A hole leaves them, as
//! they are no page of the object's. (Linux: `truncate_pagecache`, `unmap_mapping_range`.)

use crate::machine::Machine;
use crate::object::{Seals, TakenPages, ViewPlace, give_back};
use crate::space::edit::Zap;
use crate::space::{AddressSpace, Error, ObjectHandle, ObjectReach, SpaceId, Spaces, Vm};
use crate::units::{Order, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{Backing, ObjectId, VmaAttributes, VmaFlags, pages_of};
use core::convert::Infallible;
use core::ops::{Deref, Range};

/// What goes of mappings whose object loses pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    /// What shows the pages, and private copies of them.
    All,
    /// What shows the pages.
    Shown,
}

const PAGE: u64 = PAGE_SIZE as u64;

impl<'v, M: Machine> ObjectHandle<'v, M> {
    /// Gives the object another length. Pages beyond it go, private copies too: an access there ends with
    /// [`FaultError::Beyond`](crate::space::FaultError::Beyond). What the last page had beyond the end is
    /// zero afterwards, and so is what a longer object gains. Of an object whose pages a pager fills, the
    /// embedder has its own file follow, before it shortens it here, or after it has become longer. (Linux:
    /// `ftruncate`.)
    ///
    /// The embedder lets one caller at a time change the length of an object: this, and writes beyond the end
    /// ([`write_at`](Self::write_at)). Else one that makes it longer may see, or lose, what another one is
    /// taking out. (Linux: the lock of the inode.)
    ///
    /// Spaces are found by `hold`, as by [`Vm::rmap_walk`]. Those that are not keep their entries, and with
    /// them the frames, until they unmap them.
    ///
    /// Called with no lock held and outside any read section, by a caller that may have to end a space. Locks
    /// the object for a moment for each part, and one range of one space at a time, to read; may wait for
    /// forks and for readers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a length that no object has, [`Error::NotPermitted`] where a
    /// [seal](Self::add_seals) forbids it: nothing has changed.
    pub fn set_len_bytes<S>(
        &self,
        len_bytes: u64,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<ObjectReach, Error>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        if len_bytes.div_ceil(PAGE) > crate::object::MAX_PAGES {
            return Err(Error::Invalid);
        }
        let (vm, object) = (self.vm, self.id());
        let before = vm.set_object_len(object, len_bytes)?;
        if mutant!("truncate.length-only") {
            return Ok(ObjectReach::default());
        }
        let gone = len_bytes.div_ceil(PAGE)..u64::MAX;
        let reach = if len_bytes < before {
            vm.take_object_pages(object, gone.clone());
            vm.drop_object_pages(object, gone, Dropped::All, hold)
        } else {
            ObjectReach::default()
        };
        vm.zero_object_tail(object, len_bytes.min(before));
        Ok(reach)
    }

    /// Makes a hole: the bytes are zeros from now on, and whole pages of them take no memory. Private copies
    /// stay. Of an object whose pages a pager fills, they are what that fills in again. (Linux: `fallocate`
    /// with `FALLOC_FL_PUNCH_HOLE`, `MADV_REMOVE`.)
    ///
    /// Called as [`set_len_bytes`](Self::set_len_bytes).
    ///
    /// # Errors
    /// [`Error::Invalid`] for no length, and a range that wraps; [`Error::NotPermitted`] where the object is
    /// [sealed](Self::add_seals) against writing.
    pub fn punch_hole<S>(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<ObjectReach, Error>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let end = offset_bytes.checked_add(len_bytes).filter(|_| len_bytes > 0).ok_or(Error::Invalid)?;
        let (vm, object) = (self.vm, self.id());
        if vm.is_sealed(object, Seals::NO_WRITE) {
            return Err(Error::NotPermitted);
        }
        let whole = offset_bytes.div_ceil(PAGE)..end / PAGE;
        if whole.start > whole.end {
            vm.zero_object_part(object, offset_bytes..end);
            return Ok(ObjectReach::default());
        }
        vm.zero_object_part(object, offset_bytes..whole.start * PAGE);
        vm.zero_object_part(object, whole.end * PAGE..end);
        Ok(vm.punch_pages(object, whole, hold))
    }
}

impl<'v, M: Machine> Vm<'v, M> {
    /// Sets the length of an object that the caller keeps. Returns that before.
    fn set_object_len(&self, object: ObjectId, len_bytes: u64) -> Result<u64, Error> {
        let reading = self.rcu.read();
        let before = self.object(object, &reading).map_or(Some(0), |object| object.set_len(len_bytes));
        before.ok_or(Error::NotPermitted)
    }

    /// Makes a hole of whole pages in an object that the caller keeps.
    fn punch_pages<S>(
        &self,
        object: ObjectId,
        pages: Range<u64>,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> ObjectReach
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        if pages.is_empty() {
            return ObjectReach::default();
        }
        self.take_object_pages(object, pages.clone());
        self.drop_object_pages(object, pages, Dropped::Shown, hold)
    }

    /// The pages that an object has: none of one that is gone. What was done before it got its length is
    /// seen.
    pub(super) fn object_pages_exact(&self, object: ObjectId) -> u64 {
        let reading = self.rcu.read();
        self.object(object, &reading).map_or(0, |object| object.pages_exact())
    }

    /// Takes the pages out of an object. Those that are being written are waited for: what the embedder
    /// stores of them afterwards would be what they were. On a platform whose threads do not block, one that
    /// a pager does not answer for is taken all the same.
    fn take_object_pages(&self, object: ObjectId, mut pages: Range<u64>) {
        let mut waits = !mutant!("truncate.writing-not-waited-for");
        while !pages.is_empty() {
            let reading = self.rcu.read();
            let Some(found) = self.object(object, &reading) else { return };
            let key = found.pager_key();
            let (taken, next) = found.take_first(&self.memory, &pages, waits, &reading);
            drop(reading);
            match taken {
                TakenPages::Nothing => {}
                TakenPages::Writing(page) => {
                    let waited = key.map(|key| self.wait_for_writers((object, key), &(page..page + 1)));
                    waits = matches!(waited, Some(Ok(())));
                }
                TakenPages::Taken(taken) => give_back(taken, &self.rcu),
                TakenPages::Left(frame) => frame.zero(0..PAGE_SIZE),
            }
            pages.start = next;
        }
    }

    /// Stores zeros from `offset_bytes` to the end of its page, if the object has that.
    fn zero_object_tail(&self, object: ObjectId, offset_bytes: u64) {
        self.zero_object_part(object, offset_bytes..offset_bytes.next_multiple_of(PAGE));
    }

    /// Stores zeros in bytes of one page of an object, if that has the page.
    pub(super) fn zero_object_part(&self, object: ObjectId, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        let reading = self.rcu.read();
        let page = bytes.start / PAGE;
        let found = self.object(object, &reading);
        let frame = found.and_then(|object| object.get_page(&self.memory, page, &reading));
        drop(reading);
        let inside = |byte: u64| (byte - page * PAGE) as usize;
        if let Some(frame) = frame {
            frame.zero(inside(bytes.start)..inside(bytes.end));
            self.note_stored(frame.pfn());
        }
    }

    /// Has every space lose pages that were taken out of an object.
    fn drop_object_pages<S>(
        &self,
        object: ObjectId,
        pages: Range<u64>,
        dropped: Dropped,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> ObjectReach
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        self.visit_views(object, &pages, hold, |space, place, pages| {
            space.drop_object_pages((object, place), pages, dropped);
        })
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Makes holes in the objects that shared mappings of the range show (MADV_REMOVE). Spaces are found by
    /// `hold`, as by [`Vm::rmap_walk`].
    ///
    /// Called as [`ObjectHandle::set_len_bytes`].
    ///
    /// # Errors
    /// In the order of the mappings, those before have their holes: [`Error::Invalid`] for an unaligned
    /// start, a range that wraps, locked memory, and a mapping that is of no object; [`Error::Access`] for
    /// private memory, and where a program may never write; [`Error::NotPermitted`] where the object is
    /// [sealed](ObjectHandle::add_seals) against it; [`Error::NoMemory`] for holes in the range, at the end.
    pub fn remove<S>(
        &self,
        addr: VirtAddr,
        len_bytes: u64,
        hold: impl Fn(SpaceId) -> Option<S>,
    ) -> Result<ObjectReach, Error>
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::Invalid)?;
        let is_meant = |vma: &VmaAttributes| match vma.backing.get() {
            Backing::Object(_) if vma.flags.contains(VmaFlags::LOCKED) => Err(Error::Invalid),
            Backing::Object(_) if vma.is_private() || !vma.flags.contains(VmaFlags::MAY_WRITE) => {
                Err(Error::Access)
            }
            Backing::Object(_) => Ok(true),
            _ => Err(Error::Invalid),
        };
        let mut reach = ObjectReach::default();
        self.each_shown(range, is_meant, |object, pages| {
            if self.vm.is_sealed(object.id(), Seals::NO_WRITE) {
                return Err(Error::NotPermitted);
            }
            let more = self.vm.punch_pages(object.id(), pages, &hold);
            reach.found += more.found;
            reach.missing += more.missing;
            Ok(())
        })?;
        Ok(reach)
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Drops private copies that lie beyond the ends of their objects. Called once the space can be found,
    /// where a fork has made it: an object that was truncated before that did not reach it.
    /// [`Spaces::insert`] does so.
    ///
    /// Called with no lock held and outside any read section. Locks mappings of objects that have copies, one
    /// after the other, to read.
    pub fn drop_beyond_ends(&self) {
        let all = self.mappings.all_pages();
        let mut rest = all;
        while let Some(vma) = self.mappings.first_in_racy(rest) {
            rest = VpnRange::new(vma.range.end, all.end);
            let Some(object) = vma.backing.object().filter(|_| vma.is_private() && !vma.anon.is_none())
            else {
                continue;
            };
            let (place, first) = (vma.view_place(self.id()), vma.offset);
            let pages = self.vm.object_pages_exact(object);
            let gone = pages.max(first)..first + vma.range.len();
            if !gone.is_empty() && !mutant!("truncate.newborn-missed") {
                self.drop_object_pages((object, place), &gone, Dropped::All);
            }
        }
    }

    /// Clears the leaves of pages of an object in the mappings of one view.
    fn drop_object_pages(
        &self,
        (object, place): (ObjectId, ViewPlace),
        pages: &Range<u64>,
        dropped: Dropped,
    ) {
        let Self { mappings, entries, .. } = self;
        let range = place.vpns_of(pages);
        let guard = mappings.read_after_fork(entries, whole_leaves(range));
        let token = guard.token();
        let _no_holes = mappings.each_part_in(token, range, |part, vma| {
            let is_of_view = vma.backing.object() == Some(object) && vma.view_place(self.id()) == place;
            if is_of_view && dropped == Dropped::Shown && vma.is_private() {
                entries.drop_object_leaves(token, part);
            } else if is_of_view {
                // A huge leaf that reaches beyond the pages goes as a whole, which takes no memory: faults
                // bring back the rest. Private memory has none here.
                let may_be_huge = !vma.is_private() && entries.may_have_huge_leaves();
                let part = if may_be_huge { whole_leaves(part).intersect(vma.range) } else { part };
                Zap::of_contents(entries).run(token, part);
            }
            Ok::<(), Infallible>(())
        });
    }
}

/// The pages, and those that huge leaves may map together with them.
fn whole_leaves(pages: VpnRange) -> VpnRange {
    let start = pages_of(Order::HUGE, pages.start).start;
    VpnRange::new(start, pages_of(Order::HUGE, Vpn(pages.end.0 - 1)).end)
}

impl<'v, M: Machine> Spaces<'v, M> {
    /// As [`ObjectHandle::set_len_bytes`], of spaces that were put in here; others are missing.
    ///
    /// # Errors
    /// As of that.
    pub fn set_object_len_bytes(
        &self,
        object: &ObjectHandle<'v, M>,
        len_bytes: u64,
    ) -> Result<ObjectReach, Error> {
        object.set_len_bytes(len_bytes, |id| self.hold(id))
    }

    /// As [`ObjectHandle::punch_hole`], of spaces that were put in here; others are missing.
    ///
    /// # Errors
    /// As of that.
    pub fn punch_hole(
        &self,
        object: &ObjectHandle<'v, M>,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<ObjectReach, Error> {
        object.punch_hole(offset_bytes, len_bytes, |id| self.hold(id))
    }
}
