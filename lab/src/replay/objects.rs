//! The files of a trace as objects of the library, for one family: made when they are first mapped, kept to
//! its end, as the page cache keeps them.
//!
//! A trace has no contents: pages are filled with zeros. A file is as long as it was when it was first
//! mapped, if the trace has that, and from then on its length follows what the faults tell: an access that
//! ended in SIGBUS was beyond the end, one that did not was not.

use super::files::{FileKind, FileNr, FileTable};
use super::player::Player;
use super::setup::ReplayMachine;
use crate::trace::Mapping;
use interleaf::frame::PageFill;
use interleaf::object::{PageAnswer, PageContents, Pager, PagerKey};
use interleaf::space::{AddressSpace, Error, ObjectHandle, SpaceId, Vm};
use interleaf::units::{PAGE_SIZE, Pfn, VirtAddr, Vpn};
use interleaf::vma::{ObjectId, VmaAttributes};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Of a key: its pages are written back.
const WRITTEN_BACK: u64 = 1 << 32;

/// Fills pages with zeros, and takes whatever is written back.
#[derive(Debug)]
pub struct ZeroPager;

impl Pager<ReplayMachine> for ZeroPager {
    fn try_page(&self, _: PagerKey, _: u64, _: &mut PageFill<'_, ReplayMachine>) -> PageAnswer {
        PageAnswer::Ready
    }

    fn is_written_back(&self, object: PagerKey) -> bool {
        object.0 & WRITTEN_BACK != 0
    }

    fn write_back(&self, _: PagerKey, _: u64, _: &PageContents<'_, '_, ReplayMachine>) -> PageAnswer {
        PageAnswer::Ready
    }
}

/// A handle of a file's object.
pub type Object<'v> = ObjectHandle<'v, ReplayMachine>;

/// The files that a family has mapped so far.
#[derive(Debug)]
pub struct Objects<'v> {
    vm: &'v Vm<'v, ReplayMachine>,
    files: &'v FileTable,
    handles: RefCell<Vec<Option<Object<'v>>>>,
    /// Of each object, which file it is.
    numbers: RefCell<HashMap<ObjectId, FileNr>>,
    lengths_imposed: Cell<u64>,
}

impl<'v> Objects<'v> {
    /// None mapped yet.
    pub fn new(vm: &'v Vm<'v, ReplayMachine>, files: &'v FileTable) -> Objects<'v> {
        let handles = RefCell::new(vec![None; files.len()]);
        let (numbers, lengths_imposed) = (RefCell::default(), Cell::new(0));
        Objects { vm, files, handles, numbers, lengths_imposed }
    }

    /// The object of a file.
    ///
    /// # Errors
    /// Where there is no memory for its record.
    pub fn get(&self, file: FileNr) -> Result<Object<'v>, Error> {
        let handle = &mut self.handles.borrow_mut()[file.0 as usize];
        if let Some(object) = handle {
            return Ok(object.clone());
        }
        let written_back = if self.files.kind(file) == FileKind::Disk { WRITTEN_BACK } else { 0 };
        let object = Object::paged(self.vm, PagerKey(u64::from(file.0) | written_back))?;
        if let Some(len_bytes) = self.files.len_bytes(file) {
            // Longer than any object: it is as long as any.
            let _reach = object.set_len_bytes(len_bytes, |_| None::<&AddressSpace<'v, ReplayMachine>>);
        }
        self.numbers.borrow_mut().insert(object.id(), file);
        Ok(handle.insert(object).clone())
    }

    /// The object of a mapping at exec; `None` where it is of no file.
    ///
    /// # Errors
    /// Where there is no memory for its record.
    pub fn of_mapping(&self, mapping: &Mapping) -> Result<Option<Object<'v>>, Error> {
        self.files.of_mapping(mapping).map(|file| self.get(file)).transpose()
    }

    /// Whether a mapping of Linux's is of a file.
    pub fn is_file(&self, mapping: &Mapping) -> bool {
        self.files.of_mapping(mapping).is_some()
    }

    /// Whether a mapping shows a file, and whether its pages are written back.
    pub fn kind_of(&self, vma: &VmaAttributes) -> Option<FileKind> {
        let object = vma.backing.object()?;
        let file = self.numbers.borrow().get(&object).copied();
        file.map(|file| self.files.kind(file))
    }

    /// How often a length was imposed.
    pub fn lengths_imposed(&self) -> u64 {
        self.lengths_imposed.get()
    }
}

impl<'v> Player<'_, 'v> {
    /// A space of the family, as the library finds it.
    pub(super) fn find(&self, id: SpaceId) -> Option<&AddressSpace<'v, ReplayMachine>> {
        self.family.alive().find(|space| space.id() == id)
    }

    /// The kind of the file that is mapped at an address.
    pub(super) fn file_at(&self, addr: VirtAddr) -> Option<FileKind> {
        self.space.inspect().vma_at(addr).and_then(|vma| self.objects.kind_of(&vma))
    }

    /// The frame that the file has of the page that is mapped at one.
    pub(super) fn frame_of_file(&self, page: Vpn) -> Option<Pfn> {
        self.file_at(page.addr())?;
        let (object, first) = self.space.object_at(page.addr())?;
        object.frame_of(first)
    }

    /// Before a load at the address: the pages around it that Linux's page cache had, the bits of `cached`,
    /// come into the object.
    pub(super) fn bring_cached(&self, addr: VirtAddr, cached: u32) {
        let Some((object, page)) = self.space.object_at(addr) else { return };
        for page in around_pages(page, cached).filter(|&page| object.frame_of(page).is_none()) {
            // Not brought: the load maps less, and the difference is listed.
            let _read = object.read_at(bytes(page), &mut [0]);
        }
    }

    /// Those of the pages that the object lacks.
    pub(super) fn lacking(&self, addr: VirtAddr, cached: u32) -> Option<(Object<'v>, Vec<u64>)> {
        let (object, page) = self.space.object_at(addr)?;
        let lacking = around_pages(page, cached).filter(|&page| object.frame_of(page).is_none()).collect();
        Some((object, lacking))
    }

    /// Before an access that ended in SIGBUS: the file at the address ends before its page.
    #[cold]
    pub(super) fn end_file_before(&self, addr: VirtAddr) {
        if let Some((object, page)) = self.space.object_at(addr)
            && object.len_bytes() > bytes(page)
        {
            self.impose_length(&object, bytes(page));
        }
    }

    /// After an access that was refused: the file at the address reaches to the end of its page, as Linux
    /// granted it. Whether it did not before.
    #[cold]
    pub(super) fn extend_file_to(&self, addr: VirtAddr) -> bool {
        let found = self.space.object_at(addr).filter(|(object, page)| object.len_bytes() <= bytes(*page));
        if let Some((object, page)) = &found {
            self.impose_length(object, bytes(page + 1));
        }
        found.is_some()
    }

    fn impose_length(&self, object: &Object<'v>, len_bytes: u64) {
        // Longer than any object: it stays as it is, and the access tells.
        let _reach = object.set_len_bytes(len_bytes, |id| self.find(id));
        self.objects.lengths_imposed.set(self.objects.lengths_imposed.get() + 1);
    }
}

/// The page that the middle of a word of cached pages is about.
pub const MIDDLE: u32 = 15;

/// The pages of an object around one, of a word that has a bit for each.
fn around_pages(page: u64, cached: u32) -> impl Iterator<Item = u64> {
    let bits = (0..u32::BITS).filter(move |bit| cached & 1 << bit != 0);
    bits.filter_map(move |bit| (page + u64::from(bit)).checked_sub(u64::from(MIDDLE)))
}

/// The bytes of so many pages; the most there are if they are more.
fn bytes(pages: u64) -> u64 {
    pages.saturating_mul(PAGE_SIZE as u64)
}
