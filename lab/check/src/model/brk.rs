//! `brk`: the end of the heap.

use super::Model;
use super::mapping::{Mapping, Sides, VmFlags};
use crate::calls::{Errno, PAGE};

impl Model {
    /// Moves the break if that can be done; answers where it is then.
    pub(super) fn set_brk(&mut self, wanted: u64) -> u64 {
        if wanted >= self.setting.start_brk && self.move_brk(wanted).is_ok() {
            self.brk = wanted;
        }
        self.brk
    }

    fn move_brk(&mut self, wanted: u64) -> Result<(), Errno> {
        let old = self.brk.next_multiple_of(PAGE);
        let new = wanted.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        if new < old {
            return self.shrink_heap(new, old);
        }
        if new == old { Ok(()) } else { self.grow_heap(old, new) }
    }

    /// Releases whatever lies in `[new, old)`; refused if that is nothing.
    fn shrink_heap(&mut self, new: u64, old: u64) -> Result<(), Errno> {
        if self.mappings.is_free(&(new..old)) {
            return Err(Errno::ENOMEM);
        }
        self.unmap_range(new, old)
    }

    /// Maps `[old, new)`; the page after it must be free too.
    fn grow_heap(&mut self, old: u64, new: u64) -> Result<(), Errno> {
        if new > self.setting.task_end || !self.mappings.is_free(&(old..new + PAGE)) {
            return Err(Errno::ENOMEM);
        }
        if self.mappings.len() > self.most_mappings() {
            return Err(Errno::ENOMEM);
        }
        self.commit((new - old) / PAGE)?;
        let flags = VmFlags::READ | VmFlags::WRITE | VmFlags::ACCOUNT;
        let (object, offset) = (None, old / PAGE);
        let heap = Mapping { start: old, end: new, flags, object, offset, anon: None, policy: None };
        if old > self.setting.start_brk {
            self.mappings.insert_merged(heap, Sides::Left);
        } else {
            self.mappings.insert(heap);
        }
        Ok(())
    }
}
