//! Where `mmap` puts a mapping.

use super::Model;
use crate::calls::{Errno, MapFlags, PAGE};
use std::ops::Range;

/// Size and alignment of a huge page in bytes.
const HUGE: u64 = 2 << 20;

impl Model {
    /// The address for `len` bytes, whole pages, with all of Linux's checks of an address.
    pub(super) fn place(&self, hint: u64, len: u64, flags: MapFlags) -> Result<u64, Errno> {
        let end = self.setting.task_end;
        if len > end {
            return Err(Errno::ENOMEM);
        }
        let addr = if flags.contains(MapFlags::FIXED) {
            hint
        } else if hint == 0 && len.is_multiple_of(HUGE) && !flags.contains(MapFlags::SHARED) {
            self.choose_for_huge_pages(len, flags)?
        } else {
            self.choose(hint, len, flags)?
        };
        if addr > end - len {
            return Err(Errno::ENOMEM);
        }
        if !addr.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if addr < self.setting.min_addr { Err(Errno::EPERM) } else { Ok(addr) }
    }

    /// The hint if it is free, else the highest hole.
    fn choose(&self, hint: u64, len: u64, flags: MapFlags) -> Result<u64, Errno> {
        if flags.contains(MapFlags::LOW) {
            let low = &self.setting.low;
            return self.choose_upwards(hint, len, low.start, low.end);
        }
        if hint != 0 && hint <= self.setting.task_end - len && self.mappings.is_free(&(hint..hint + len)) {
            return Ok(hint);
        }
        let downwards = self.holes(&(self.lowest(flags)..self.setting.mmap_base));
        match downwards.into_iter().rev().find(|hole| hole.end - hole.start >= len) {
            Some(hole) => Ok(hole.end - len),
            None => self.choose_upwards(hint, len, self.setting.legacy_base, self.setting.task_end),
        }
    }

    /// The lowest address that is searched for a hole.
    fn lowest(&self, flags: MapFlags) -> u64 {
        if flags.contains(MapFlags::ABOVE4G) { 1 << 32 } else { self.setting.min_addr }
    }

    /// The hint if it is free and ends below `end`, else the lowest hole from `start` to `end`.
    fn choose_upwards(&self, hint: u64, len: u64, start: u64, end: u64) -> Result<u64, Errno> {
        if len > end {
            return Err(Errno::ENOMEM);
        }
        if hint != 0 && hint <= end - len && self.mappings.is_free(&(hint..hint + len)) {
            return Ok(hint);
        }
        let fitting = self.holes(&(start..end)).into_iter().find(|hole| hole.end - hole.start >= len);
        fitting.map(|hole| hole.start).ok_or(Errno::ENOMEM)
    }

    /// A hole with room to align; without one, any hole.
    fn choose_for_huge_pages(&self, len: u64, flags: MapFlags) -> Result<u64, Errno> {
        match self.choose(0, len + HUGE, flags) {
            Ok(roomy) if roomy.is_multiple_of(HUGE) => Ok(roomy + HUGE),
            Ok(roomy) => Ok(roomy.next_multiple_of(HUGE)),
            Err(_) => self.choose(0, len, flags),
        }
    }

    /// The free ranges of `area`, upwards.
    fn holes(&self, area: &Range<u64>) -> Vec<Range<u64>> {
        let mut holes = Vec::new();
        let mut free_from = area.start;
        for mapping in
            self.mappings.iter().filter(|mapping| mapping.end > area.start && mapping.start < area.end)
        {
            if mapping.start > free_from {
                holes.push(free_from..mapping.start);
            }
            free_from = mapping.end;
        }
        if free_from < area.end {
            holes.push(free_from..area.end);
        }
        holes
    }
}
