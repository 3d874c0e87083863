//! `madvise` and `mincore`.

use super::Model;
use super::mapping::{Mapping, VmFlags};
use crate::calls::{CallResult, Errno, PAGE, REMOVE, advice};

impl Model {
    /// Advises mapping by mapping; holes are skipped and reported at the end.
    pub(super) fn madvise(&mut self, addr: u64, len: u64, number: i32) -> Result<u64, Errno> {
        let is_known = number == REMOVE || advice::NAMES.iter().any(|(known, _)| *known == number);
        if !is_known || !addr.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::EINVAL)?;
        let end = addr.checked_add(len).ok_or(Errno::EINVAL)?;
        if len == 0 {
            return Ok(0);
        }
        match number {
            advice::POPULATE_READ => return self.populate(addr, end, VmFlags::READ),
            advice::POPULATE_WRITE => return self.populate(addr, end, VmFlags::WRITE),
            _ => {}
        }
        let mut at = addr;
        let mut holes = Ok(0);
        while at < end {
            let Some(mapping) = self.mappings.first_after(at).filter(|mapping| mapping.start < end).cloned()
            else {
                return Err(Errno::ENOMEM);
            };
            if at < mapping.start {
                holes = Err(Errno::ENOMEM);
                at = mapping.start;
            }
            let part_end = mapping.end.min(end);
            self.advise_part(&mapping, at, part_end, number)?;
            at = part_end;
        }
        holes
    }

    /// Advises `[start, end)` of one mapping.
    fn advise_part(&mut self, mapping: &Mapping, start: u64, end: u64, number: i32) -> Result<(), Errno> {
        let is_anonymous = mapping.object.is_none();
        match number {
            // Nothing is locked here.
            advice::DONTNEED | advice::DONTNEED_LOCKED => {
                self.drop_private_pages(start, end);
                self.free_emptied(&(start..end));
            }
            REMOVE => {
                let object = mapping.object.ok_or(Errno::EINVAL)?;
                if !mapping.is_shared() {
                    return Err(Errno::EACCES);
                }
                let first = mapping.page_offset(start);
                self.objects.take_pages(object, &(first..first + (end - start) / PAGE));
            }
            advice::COLLAPSE => return self.collapse(mapping, &(start..end)),
            advice::FREE | advice::WIPEONFORK if !is_anonymous => return Err(Errno::EINVAL),
            advice::FREE => self.free_parts(&(start..end)),
            advice::WILLNEED if self.setting.reads_fill => {
                if let Some(object) = mapping.object {
                    let first = mapping.page_offset(start);
                    self.objects.fill_file(object, first..first + (end - start) / PAGE);
                }
            }
            advice::WILLNEED | advice::COLD => {}
            _ => {
                let flags = advised(mapping.flags, number);
                if flags != mapping.flags {
                    let done = self.mappings.change_flags(start, end, flags, self.most_mappings());
                    return done.map_err(|_| Errno::EAGAIN);
                }
            }
        }
        Ok(())
    }

    /// `msync`: nothing here is on a disk.
    pub(super) fn msync(&self, addr: u64, len: u64, flags: u32) -> Result<u64, Errno> {
        const ASYNC_SYNC: u32 = 1 | 4;
        if flags & !7 != 0 || !addr.is_multiple_of(PAGE) || flags & ASYNC_SYNC == ASYNC_SYNC {
            return Err(Errno::EINVAL);
        }
        // Linux: rounding up wraps to nothing.
        let len = len.checked_next_multiple_of(PAGE).unwrap_or(0);
        let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?;
        let mut at = addr;
        while at < end {
            at = self.mappings.at(at).ok_or(Errno::ENOMEM)?.end;
        }
        Ok(0)
    }

    /// Returns which pages are resident, up to the first hole.
    pub(super) fn mincore(&self, addr: u64, len: u64) -> CallResult {
        if !addr.is_multiple_of(PAGE) {
            return CallResult::Error(Errno::EINVAL);
        }
        let Some(end) = addr.checked_add(len).filter(|&end| end <= self.setting.task_end) else {
            return CallResult::Error(Errno::ENOMEM);
        };
        let mut bytes = Vec::new();
        for page in (addr..end).step_by(PAGE as usize) {
            if self.mappings.at(page).is_none() {
                return CallResult::Resident(bytes, Some(Errno::ENOMEM));
            }
            bytes.push(u8::from(self.page(page).is_some()));
        }
        CallResult::Resident(bytes, None)
    }
}

/// The flags after advice that only changes flags.
fn advised(flags: VmFlags, number: i32) -> VmFlags {
    let read_order = VmFlags::RANDOM | VmFlags::SEQUENTIAL;
    let huge = VmFlags::HUGEPAGE | VmFlags::NOHUGEPAGE;
    let (cleared, set) = match number {
        advice::RANDOM => (read_order, VmFlags::RANDOM),
        advice::SEQUENTIAL => (read_order, VmFlags::SEQUENTIAL),
        advice::DONTFORK => (VmFlags::empty(), VmFlags::DONTFORK),
        advice::DOFORK => (VmFlags::DONTFORK, VmFlags::empty()),
        advice::HUGEPAGE => (huge, VmFlags::HUGEPAGE),
        advice::NOHUGEPAGE => (huge, VmFlags::NOHUGEPAGE),
        advice::DONTDUMP => (VmFlags::empty(), VmFlags::DONTDUMP),
        advice::DODUMP => (VmFlags::DONTDUMP, VmFlags::empty()),
        advice::WIPEONFORK => (VmFlags::empty(), VmFlags::WIPEONFORK),
        advice::KEEPONFORK => (VmFlags::WIPEONFORK, VmFlags::empty()),
        _ => (read_order, VmFlags::empty()),
    };
    (flags - cleared) | set
}
