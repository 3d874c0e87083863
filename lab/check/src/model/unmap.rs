//! `munmap`, and what every other removal does.

use super::Model;
use super::mapping::Mapping;
use crate::calls::{Errno, PAGE};

impl Model {
    /// Removes whatever lies in `[addr, addr + len)`; nothing there is no error.
    pub(super) fn munmap(&mut self, addr: u64, len: u64) -> Result<u64, Errno> {
        let end = self.setting.task_end;
        if !addr.is_multiple_of(PAGE) || addr > end || len > end - addr || len == 0 {
            return Err(Errno::EINVAL);
        }
        self.unmap_range(addr, addr + len.next_multiple_of(PAGE))?;
        Ok(0)
    }

    /// Removes mappings and their pages, unless that would leave too many mappings.
    pub(super) fn unmap_range(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.cut_out(start, end)?;
        self.remove_range(start, end);
        self.free_tables(&(start..end));
        Ok(())
    }

    /// Makes both ends of a range boundaries. Only a hole in the middle of one mapping makes one mapping
    /// more.
    pub(super) fn cut_out(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let inside = |mapping: &Mapping| mapping.start < start && mapping.end > end;
        if self.mappings.len() >= self.most_mappings() && self.mappings.at(start).is_some_and(inside) {
            return Err(Errno::ENOMEM);
        }
        self.mappings.split(start);
        self.mappings.split(end);
        Ok(())
    }

    /// Removes mappings, which end with the range, and their pages; a shared object goes with its last
    /// mapping.
    pub(super) fn remove_range(&mut self, start: u64, end: u64) {
        let mut shared = false;
        while let Some(first) = self.mappings.first_after(start).filter(|first| first.start < end) {
            shared |= first.object.is_some();
            let start = first.start;
            self.mappings.remove(start);
        }
        self.drop_private_pages(start, end);
        if shared {
            let (mappings, held) = (&self.mappings, &self.objects.held);
            let file = self.objects.file.map(|file| file.object);
            let mapped = |object| mappings.iter().any(|mapping| mapping.object == Some(object));
            self.objects
                .contents
                .retain(|&object, _| held.contains(&object) || file == Some(object) || mapped(object));
        }
    }

    /// Forgets the private pages of `[start, end)`.
    pub(super) fn drop_private_pages(&mut self, start: u64, end: u64) {
        self.pages.retain(|&page, _| page < start || page >= end);
        self.drop_regions(&(start..end));
    }
}
