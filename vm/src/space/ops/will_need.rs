//! MADV_WILLNEED: the pager is asked for pages that will be read soon, and not waited for.

use crate::frame::{PageFill, Priority};
use crate::machine::Machine;
use crate::object::PageAnswer;
use crate::space::{AddressSpace, Error, ObjectHandle, Vm};
use crate::units::VpnRange;
use crate::vma::{Backing, VmaAttributes};
use core::ops::Range;

/// Pages of one mapping that a call asks for, at most: what a program advises of a large file is not to take
/// all memory. (Linux: the window of reading ahead.)
const MOST_PAGES: u64 = 512;

impl<M: Machine> AddressSpace<'_, M> {
    /// Asks the pagers of objects that a range shows for pages that lack: the first 2 MiB of each mapping.
    /// What is ready becomes the object's, and no page is mapped; what is not ready, the pager may begin.
    /// Other memory needs nothing. A lack of memory, and what a pager refuses, end the asking for a mapping;
    /// neither is an error.
    ///
    /// # Errors
    /// [`Error::NoMemory`] for holes, at the end.
    pub(super) fn will_need(&self, range: VpnRange) -> Result<(), Error> {
        let is_meant = |vma: &VmaAttributes| Ok(matches!(vma.backing.get(), Backing::Object(_)));
        self.each_shown(range, is_meant, |object, pages| {
            self.vm.ask_for_pages(object, pages);
            Ok(())
        })
    }
}

impl<'v, M: Machine> Vm<'v, M> {
    fn ask_for_pages(&self, object: &ObjectHandle<'v, M>, pages: Range<u64>) {
        let number = object.id().number();
        for page in pages.start..pages.end.min(pages.start.saturating_add(MOST_PAGES)) {
            let reading = self.rcu.read();
            let Some(found) = self.objects.get(number, &reading) else { return };
            let Some(key) = found.pager_key().filter(|_| page < found.pages()) else { return };
            let is_there = found.lookup(&self.memory, page, &reading).is_some();
            drop(reading);
            if is_there {
                continue;
            }
            let Some(frame) = self.memory.alloc_zeroed(Priority::NoWait) else { return };
            let mut fill = PageFill::new(frame);
            match self.objects.ask_pager(key, page, &mut fill).0 {
                PageAnswer::NotReady => {}
                PageAnswer::Beyond | PageAnswer::Error => return,
                PageAnswer::Ready => {
                    let reading = self.rcu.read();
                    let Some(found) = self.objects.get(number, &reading) else { return };
                    let filled = found.fill_from_pager(&self.memory, page, &mut Some(fill), &reading);
                    if filled.is_err() {
                        return;
                    }
                }
            }
        }
    }
}
