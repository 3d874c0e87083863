//! `munmap`, and what every other removal does.

use super::Model;
use crate::check::calls::{Errno, PAGE};

impl Model {
    /// Removes whatever lies in `[addr, addr + len)`; nothing there is no error.
    pub(super) fn munmap(&mut self, addr: u64, len: u64) -> Result<u64, Errno> {
        let end = self.setting.task_end;
        if !addr.is_multiple_of(PAGE) || addr > end || len > end - addr || len == 0 {
            return Err(Errno::EINVAL);
        }
        self.remove_range(addr, addr + len.next_multiple_of(PAGE));
        Ok(0)
    }

    /// Removes mappings and their private pages; a shared object goes with its last mapping.
    pub(super) fn remove_range(&mut self, start: u64, end: u64) {
        self.mappings.split(start);
        self.mappings.split(end);
        while let Some(first) = self.mappings.first_after(start).filter(|first| first.start < end) {
            let start = first.start;
            self.mappings.remove(start);
        }
        self.drop_private_pages(start, end);
        let mappings = &self.mappings;
        self.objects.retain(|object, _| mappings.iter().any(|mapping| mapping.object == Some(*object)));
    }

    /// Forgets the private pages of `[start, end)`.
    pub(super) fn drop_private_pages(&mut self, start: u64, end: u64) {
        self.pages.retain(|&page, _| page < start || page >= end);
    }
}
