//! The one file: its length, its holes, its bytes, and what of its mappings goes with them.

use super::contents::Contents;
use super::{Model, Objects};
use crate::calls::{CallResult, Errno, FILE_PAGES, FileCall, PAGE};
use crate::setting::StoredBeyondEnd;
use std::ops::Range;

/// What is known of the file beside its pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// Its object.
    pub object: u32,
    /// Its length in bytes.
    pub len: u64,
}

impl Objects {
    /// The number of the file's object, which is there from now on, mapped or not.
    pub(super) fn file(&mut self) -> u32 {
        if let Some(file) = self.file {
            return file.object;
        }
        let object = self.new_object();
        self.file = Some(File { object, len: FILE_PAGES * PAGE });
        object
    }

    /// The file's length in bytes.
    pub(super) fn file_len(&self) -> u64 {
        self.file.map_or(FILE_PAGES * PAGE, |file| file.len)
    }

    /// Whether the page lies beyond the end of that object.
    pub(super) fn is_beyond(&self, object: u32, page: u64) -> bool {
        let pages = match self.file {
            Some(file) if file.object == object => Some(file.len.div_ceil(PAGE)),
            _ => self.lengths.get(&object).copied(),
        };
        pages.is_some_and(|pages| page >= pages)
    }

    fn set_file_len(&mut self, len: u64) {
        self.file();
        if let Some(file) = &mut self.file {
            file.len = len;
        }
    }

    fn file_page(&mut self, page: u64) -> Option<&mut Contents> {
        let object = self.file();
        self.contents.get_mut(&object)?.get_mut(&page)
    }

    /// Fills pages of an object before its end, if it is the file.
    pub(super) fn fill_file(&mut self, object: u32, pages: Range<u64>) {
        let Some(file) = self.file.filter(|file| file.object == object) else { return };
        let contents = self.contents.entry(object).or_default();
        for page in pages.start..pages.end.min(file.len.div_ceil(PAGE)) {
            contents.entry(page).or_default();
        }
    }

    /// Stores zeros in bytes of one page of the file, where it has that.
    fn zero_file(&mut self, bytes: Range<u64>) {
        if let Some(contents) = self.file_page(bytes.start / PAGE).filter(|_| !bytes.is_empty()) {
            bytes.for_each(|byte| contents.set(byte % PAGE, 0));
        }
    }

    /// Takes pages out of an object.
    pub(super) fn take_pages(&mut self, object: u32, pages: &Range<u64>) {
        if let Some(contents) = self.contents.get_mut(&object) {
            contents.retain(|page, _| !pages.contains(page));
        }
    }
}

/// Linux takes offsets and lengths as signed numbers.
fn positive(word: u64) -> Result<u64, Errno> {
    if word > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(word) }
}

impl Model {
    pub(super) fn file_call(&mut self, call: FileCall) -> CallResult {
        let done = match call {
            FileCall::Truncate { len } => self.truncate(len),
            FileCall::PunchHole { offset, len } => self.punch_hole(offset, len),
            FileCall::Write { offset, len, value } => self.write_file(offset, len, value),
            FileCall::Read { offset, len } => match positive(offset) {
                Ok(offset) => return CallResult::data(&self.read_file(offset, len)),
                Err(error) => Err(error),
            },
        };
        done.map_or_else(CallResult::Error, CallResult::Value)
    }

    fn truncate(&mut self, len: u64) -> Result<u64, Errno> {
        let len = positive(len)?;
        let before = self.objects.file_len();
        self.objects.set_file_len(len);
        if len <= before || self.setting.beyond_end == StoredBeyondEnd::Zeroed {
            let end = len.min(before);
            self.objects.zero_file(end..end.next_multiple_of(PAGE));
        }
        let file = self.objects.file();
        self.objects.take_pages(file, &(len.div_ceil(PAGE)..u64::MAX));
        self.drop_beyond_end(file, len);
        Ok(0)
    }

    /// Private copies of pages beyond the end go: an access there is a bus error.
    pub(super) fn drop_beyond_end(&mut self, file: u32, len: u64) {
        let mappings = &self.mappings;
        let is_beyond = |addr| {
            let mapping = mappings.at(addr).filter(|mapping| mapping.object == Some(file));
            mapping.is_some_and(|mapping| mapping.page_offset(addr) >= len.div_ceil(PAGE))
        };
        self.pages.retain(|&addr, _| !is_beyond(addr));
    }

    fn punch_hole(&mut self, offset: u64, len: u64) -> Result<u64, Errno> {
        let (offset, len) = (positive(offset)?, positive(len)?);
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let end = positive(offset + len).map_err(|_| Errno::EFBIG)?;
        let whole = offset.next_multiple_of(PAGE)..end / PAGE * PAGE;
        if whole.start > whole.end {
            self.objects.zero_file(offset..end);
            return Ok(0);
        }
        self.objects.zero_file(offset..whole.start);
        self.objects.zero_file(whole.end..end);
        let file = self.objects.file();
        self.objects.take_pages(file, &(whole.start / PAGE..whole.end / PAGE));
        Ok(0)
    }

    fn read_file(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let (file, end) = (self.objects.file(), self.objects.file_len());
        let end = end.min(offset.saturating_add(len)).max(offset);
        if self.setting.reads_fill && end > offset {
            let pages = self.objects.contents.entry(file).or_default();
            for page in offset / PAGE..end.div_ceil(PAGE) {
                pages.entry(page).or_default();
            }
        }
        let objects = &mut self.objects;
        let mut byte = |at: u64| objects.file_page(at / PAGE).map_or(0, |page| page.byte(at % PAGE));
        (offset..end).map(&mut byte).collect()
    }

    fn write_file(&mut self, offset: u64, len: u64, value: u8) -> Result<u64, Errno> {
        let offset = positive(offset)?;
        if len == 0 {
            return Ok(0);
        }
        let end = positive(offset + len).map_err(|_| Errno::EFBIG)?;
        let (file, before) = (self.objects.file(), self.objects.file_len());
        if before < offset && self.setting.beyond_end == StoredBeyondEnd::Zeroed {
            self.objects.zero_file(before..before.next_multiple_of(PAGE).min(offset));
        }
        self.objects.set_file_len(before.max(end));
        let pages = self.objects.contents.entry(file).or_default();
        for at in offset..end {
            pages.entry(at / PAGE).or_default().set(at % PAGE, value);
        }
        Ok(len)
    }
}
