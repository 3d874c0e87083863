//! `mremap`.

use super::Model;
use super::mapping::{Mapping, Sides, VmFlags};
use crate::calls::{Errno, MapFlags, PAGE};
use interleaf_linux_abi::{MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE};

/// The words, with lengths in whole pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    addr: u64,
    old_len: u64,
    new_len: u64,
    flags: u64,
    to: u64,
}

impl Words {
    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    fn names_place(&self) -> bool {
        self.has(MREMAP_FIXED | MREMAP_DONTUNMAP)
    }
}

impl Model {
    /// Gives `old_len` bytes at `addr` another length, or another address; answers where they are.
    pub(super) fn mremap(&mut self, [addr, old_len, new_len, flags, to]: [u64; 5]) -> Result<u64, Errno> {
        // A length that wraps is none.
        let whole = |len: u64| len.checked_next_multiple_of(PAGE).unwrap_or(0);
        let words = Words { addr, old_len: whole(old_len), new_len: whole(new_len), flags, to };
        self.check_words(&words)?;
        if words.has(MREMAP_FIXED) && words.old_len == words.new_len {
            return self.remap_each(words);
        }
        self.check_mapping(&words)?;
        if words.names_place() {
            self.remap_to(words)
        } else if words.new_len > words.old_len {
            self.grow(words)
        } else {
            if words.new_len < words.old_len {
                self.munmap(addr + words.new_len, words.old_len - words.new_len)?;
            }
            Ok(addr)
        }
    }

    fn check_words(&self, words: &Words) -> Result<(), Errno> {
        let Words { addr, old_len, new_len, flags, to } = *words;
        let end = self.setting.task_end;
        let known = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
        if flags & !known != 0 || !addr.is_multiple_of(PAGE) || new_len == 0 || new_len > end {
            return Err(Errno::EINVAL);
        }
        if !words.names_place() {
            return Ok(());
        }
        // An end that wraps lies below everything.
        let overlaps = addr.wrapping_add(old_len) > to && to.wrapping_add(new_len) > addr;
        let changes = words.has(MREMAP_DONTUNMAP) && old_len != new_len;
        if to > end - new_len || !to.is_multiple_of(PAGE) || !words.has(MREMAP_MAYMOVE) || changes || overlaps
        {
            return Err(Errno::EINVAL);
        }
        if self.mappings.len() + 2 >= self.most_mappings() - 3 { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// The checks of the mapping, where one is made, or grows.
    fn check_mapping(&self, words: &Words) -> Result<(), Errno> {
        let mapping = self.mappings.at(words.addr).ok_or(Errno::EFAULT)?;
        if !words.names_place() && words.new_len <= words.old_len {
            return Ok(());
        }
        if words.old_len == 0 && !mapping.is_shared() {
            return Err(Errno::EINVAL);
        }
        if words.old_len.min(words.new_len) > mapping.end - words.addr {
            return Err(Errno::EFAULT);
        }
        Ok(())
    }

    /// Moves all mappings of a range, each as it lies in it.
    fn remap_each(&mut self, words: Words) -> Result<u64, Errno> {
        let Words { addr, old_len, to, .. } = words;
        let (mut at, end) = (addr, addr.saturating_add(old_len));
        let mut answer = Err(Errno::EFAULT);
        while at < end
            && let Some(mapping) = self.mappings.first_after(at).filter(|mapping| mapping.start < end)
        {
            let (start, part_end) = (mapping.start.max(addr), mapping.end.min(end));
            if answer.is_err() && start > addr {
                return Err(Errno::EFAULT);
            }
            let len = part_end - start;
            let part = Words { addr: start, old_len: len, new_len: len, to: to + (start - addr), ..words };
            self.check_mapping(&part)?;
            let moved = self.remap_to(part)?;
            answer = answer.or(Ok(moved));
            at = part_end;
        }
        answer
    }

    /// Moves a range to a place that is named, or hinted at.
    fn remap_to(&mut self, mut words: Words) -> Result<u64, Errno> {
        let Words { addr, old_len, new_len, to, .. } = words;
        if words.has(MREMAP_FIXED) {
            self.unmap_range(to, to + new_len)?;
            self.mappings.at(addr).ok_or(Errno::EFAULT)?;
        }
        let delta = old_len.abs_diff(new_len);
        if new_len < old_len {
            self.munmap(addr + new_len, delta)?;
            words.old_len = new_len;
        }
        let kind = if words.has(MREMAP_FIXED) { MapFlags::FIXED } else { MapFlags::empty() };
        let to = self.room_for(&words, to, kind)?;
        // Linux charges a shorter length as a longer one.
        let charge = if words.has(MREMAP_DONTUNMAP) { new_len } else { delta };
        self.move_mapping(&words, to, charge)
    }

    fn room_for(&self, words: &Words, hint: u64, kind: MapFlags) -> Result<u64, Errno> {
        let mapping = self.mappings.at(words.addr).ok_or(Errno::EFAULT)?;
        // The place of a file's pages is not aligned for huge pages, either.
        let object = if mapping.object.is_some() { MapFlags::SHARED } else { MapFlags::empty() };
        self.place(hint, words.new_len, kind | object)
    }

    /// Makes a range longer: in place, if the mapping ends with it and nothing follows, else elsewhere.
    fn grow(&mut self, words: Words) -> Result<u64, Errno> {
        let Words { addr, old_len, new_len, .. } = words;
        let delta = new_len - old_len;
        let mapping = self.mappings.at(addr).expect("it was checked").clone();
        let more = mapping.end..mapping.end.saturating_add(delta);
        let is_free = more.end <= self.setting.task_end && self.mappings.is_free(&more);
        if addr + old_len == mapping.end && is_free {
            if mapping.flags.contains(VmFlags::ACCOUNT) {
                self.commit(delta / PAGE)?;
            }
            let offset = mapping.page_offset(more.start);
            let grown = Mapping { start: more.start, end: more.end, offset, ..mapping };
            self.mappings.insert_merged(grown, Sides::Both);
            return Ok(addr);
        }
        if !words.has(MREMAP_MAYMOVE) {
            return Err(Errno::ENOMEM);
        }
        let to = self.room_for(&words, 0, MapFlags::empty())?;
        self.move_mapping(&words, to, delta)
    }

    /// Moves a range, which lies in one mapping, to a hole.
    fn move_mapping(&mut self, words: &Words, to: u64, charge: u64) -> Result<u64, Errno> {
        let Words { addr, old_len, new_len, .. } = *words;
        let old = addr..addr + old_len;
        if self.mappings.len() >= self.most_mappings() - 3 {
            return Err(Errno::ENOMEM);
        }
        let whole = self.mappings.at(addr).expect("it was checked").clone();
        if whole.flags.contains(VmFlags::ACCOUNT) {
            self.commit(charge / PAGE)?;
        }
        let mut moved = Mapping { start: to, end: to + new_len, offset: whole.page_offset(addr), ..whole };
        if moved.object.is_none() && moved.anon.is_none() {
            moved.offset = to / PAGE;
        }
        self.mappings.insert_merged(moved, Sides::Both);
        if words.has(MREMAP_DONTUNMAP) {
            // Of a mapping that has lost all of its pages no copy is known.
            if self.mappings.starting_at(addr).is_some_and(|whole| whole.end == old.end) {
                let emptied = self.mappings.remove(addr);
                self.mappings.insert(Mapping { anon: None, ..emptied });
            }
        } else if !old.is_empty() {
            self.mappings.split(old.start);
            self.mappings.split(old.end);
            self.mappings.remove(old.start);
        }
        let pages: Vec<u64> = self.pages.range(old.clone()).map(|(&page, _)| page).collect();
        for page in pages {
            if let Some(contents) = self.pages.remove(&page) {
                self.pages.insert(to + (page - addr), contents);
            }
        }
        self.free_tables(&old);
        Ok(to)
    }
}
