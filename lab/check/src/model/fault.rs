//! Touching memory: single bytes, and ranges that are populated.

use super::mapping::{Anon, Mapping, VmFlags};
use super::{Contents, Model, Page};
use crate::calls::{CallResult, Errno, FILE_PAGES, PAGE, Segv};

/// The page lies beyond the end of its object.
struct PastEnd;

impl Model {
    /// Reads one byte.
    pub(super) fn read(&mut self, addr: u64) -> CallResult {
        match self.access(addr, VmFlags::READ) {
            Ok(()) => CallResult::Byte(self.contents(addr).map_or(0, |contents| contents.byte(addr % PAGE))),
            Err(refused) => refused,
        }
    }

    /// Writes one byte.
    pub(super) fn write(&mut self, addr: u64, value: u8) -> CallResult {
        match self.access(addr, VmFlags::WRITE) {
            Ok(()) => {
                self.contents(addr).expect("a written page has contents").set(addr % PAGE, value);
                CallResult::Written
            }
            Err(refused) => refused,
        }
    }

    /// Makes the page ready for a store of another process, and writes the byte, if there is one: private
    /// memory whatever its rights are, shared memory that may be written.
    pub(super) fn force(&mut self, addr: u64, value: Option<u8>) -> CallResult {
        let may = |mapping: &&Mapping| !mapping.is_shared() || mapping.flags.contains(VmFlags::WRITE);
        if self.mappings.at(addr).filter(may).is_none() {
            return CallResult::Error(Errno::EFAULT);
        }
        if self.touch(addr, VmFlags::WRITE).is_err() {
            return CallResult::Error(Errno::EFAULT);
        }
        let contents = self.contents(addr).expect("a written page has contents");
        if let Some(value) = value {
            contents.set(addr % PAGE, value);
        }
        CallResult::Written
    }

    /// Checks rights and makes the page resident.
    fn access(&mut self, addr: u64, right: VmFlags) -> Result<(), CallResult> {
        let mapping = self.mappings.at(addr).ok_or(CallResult::Segv(Segv::Unmapped))?;
        // Hardware and Linux read where any right is granted.
        let enough = if right == VmFlags::WRITE { VmFlags::WRITE } else { VmFlags::RIGHTS };
        if !mapping.flags.intersects(enough) {
            return Err(CallResult::Segv(Segv::Rights));
        }
        self.touch(addr, right).map_err(|PastEnd| CallResult::Bus)
    }

    /// Makes the page at `addr`, which is mapped, resident for the access; rights do not matter any more.
    fn touch(&mut self, addr: u64, right: VmFlags) -> Result<(), PastEnd> {
        let mapping = self.mappings.at(addr).expect("the caller found it");
        if let Some(object) = mapping.object {
            let (number, is_shared) = (mapping.page_offset(addr), mapping.is_shared());
            self.note_table(addr);
            if self.pages.contains_key(&(addr / PAGE * PAGE)) {
                return Ok(());
            }
            let length = self.objects.lengths.get(&object).copied();
            let length = if self.file == Some(object) { Some(FILE_PAGES) } else { length };
            if length.is_some_and(|length| number >= length) {
                return Err(PastEnd);
            }
            let object = self.objects.contents.get_mut(&object).expect("a mapped object lives");
            let shown = object.entry(number).or_default().clone();
            if !is_shared && right == VmFlags::WRITE {
                self.give_anon(addr);
                self.pages.insert(addr / PAGE * PAGE, Page::Own(shown));
            }
            return Ok(());
        }
        if self.touch_huge(addr, right == VmFlags::WRITE) {
            return Ok(());
        }
        self.note_table(addr);
        if right == VmFlags::WRITE {
            self.give_anon(addr);
            self.fill_folio(addr);
        }
        let page = self.pages.entry(addr / PAGE * PAGE).or_insert(Page::Zero);
        if right == VmFlags::WRITE && matches!(page, Page::Zero) {
            *page = Page::Own(Contents::default());
        }
        Ok(())
    }

    /// The contents of the resident page at `addr`, if that has any of its own.
    fn contents(&mut self, addr: u64) -> Option<&mut Contents> {
        let mapping = self.mappings.at(addr)?;
        match (self.pages.get_mut(&(addr / PAGE * PAGE)), mapping.object) {
            (Some(Page::Own(contents)), _) => Some(contents),
            (None, Some(object)) => {
                self.objects.contents.get_mut(&object)?.get_mut(&mapping.page_offset(addr))
            }
            (Some(Page::Zero) | None, _) => None,
        }
    }

    /// Gives the mapping at `addr` an anon identity if it has none: a like neighbour's, the upper one first,
    /// or a new one.
    pub(super) fn give_anon(&mut self, addr: u64) {
        let mapping = self.mappings.at(addr).expect("the caller found it");
        if mapping.anon.is_some() {
            return;
        }
        let above = self.mappings.starting_at(mapping.end).filter(|above| mapping.shares_anon_with(above));
        let below = self.mappings.ending_at(mapping.start).filter(|below| below.shares_anon_with(mapping));
        let reusable = |neighbour: &Mapping| neighbour.anon.filter(|anon| !anon.inherited);
        let anon = above.and_then(reusable).or(below.and_then(reusable));
        let anon = anon.unwrap_or_else(|| self.new_anon());
        self.mappings.set_anon(addr, anon);
    }

    /// An identity that no mapping has.
    fn new_anon(&mut self) -> Anon {
        self.next_anon += 1;
        Anon { number: self.next_anon, inherited: false }
    }

    /// `MADV_POPULATE_*`: touches upwards, stops at the first hole or missing right.
    pub(super) fn populate(&mut self, start: u64, end: u64, right: VmFlags) -> Result<u64, Errno> {
        for page in (start..end).step_by(PAGE as usize) {
            let mapping = self.mappings.at(page).ok_or(Errno::ENOMEM)?;
            if !mapping.flags.contains(right) {
                return Err(Errno::EINVAL);
            }
            self.touch(page, right).map_err(|PastEnd| Errno::EFAULT)?;
        }
        Ok(0)
    }

    /// `MAP_POPULATE`: writes where that makes private copies, reads elsewhere, reports no errors.
    pub(super) fn populate_quietly(&mut self, start: u64, end: u64) {
        for page in (start..end).step_by(PAGE as usize) {
            let flags = self.mappings.at(page).expect("just mapped").flags;
            let private_write = flags & (VmFlags::WRITE | VmFlags::SHARED) == VmFlags::WRITE;
            let right = if private_write { VmFlags::WRITE } else { VmFlags::READ };
            if flags.intersects(VmFlags::RIGHTS) && self.touch(page, right).is_err() {
                break;
            }
        }
    }
}
