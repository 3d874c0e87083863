//! A load of an object's page maps those around it that the object has, under the same lock. (Linux:
//! `do_fault_around`.)

use super::attempt::FaultContext;
use super::confirm::Confirmed;
use super::proof::Proof;
use super::source::Source;
use crate::frame::MappedFrame;
use crate::machine::{Entry, Machine};
use crate::object::{FoundPage, Object};
use crate::space::counters::Counter;
use crate::table::LeafBits;
use crate::units::{Access, Order, Rights, Vpn, VpnRange};
use crate::vma::pages_of;

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// After a load: maps base pages of its object whose entries are absent, in the window of the page and in
    /// its mapping, with these rights. All questions about the page were answered with yes.
    #[inline(never)]
    pub(super) fn map_around(
        &self,
        source: Source<'a, M>,
        rights: Rights,
        confirmed: &mut Confirmed<'s, 'v, M>,
    ) {
        let size = self.space.vm.fault_around;
        let Some(object) = source.around().filter(|_| size > 1 && confirmed.access != Access::Write) else {
            return;
        };
        // Where another mapping took its place that says the same of the page, it may not of others.
        if !self.vma.is_live() && !mutant!("around.mapping-not-asked") {
            return;
        }
        let window = window(self.page, size, self.vma.range());
        let mut mapped = 0;
        for page in (window.start.0..window.end.0).map(Vpn).filter(|&page| page != self.page) {
            let slot = confirmed.slot + page.0 as usize - self.page.0 as usize;
            if confirmed.table.entry(slot) != Entry::Absent {
                continue;
            }
            if let Some(frame) = self.find_around(object, page) {
                confirmed.table.install(slot, frame, LeafBits::new(rights));
                mapped += 1;
            }
        }
        if mapped > 0 {
            self.space.vm.count_many(Counter::FaultAroundMapped, mapped);
        }
    }

    /// The object's frame of a page, for one entry more: as the lock of the table is held, it is one that the
    /// object has (P12).
    fn find_around(&self, object: &'a Object<M::Cpu>, page: Vpn) -> Option<MappedFrame<'v, M>> {
        let (memory, offset) = (&self.space.vm.memory, self.vma.frame_offset(page));
        let find = || match object.find(memory, offset, self.reading) {
            FoundPage::Frame(pfn) if object.has_room(offset, Order::BASE) => Some(pfn),
            _ => None,
        };
        let pfn = find()?;
        let frame = MappedFrame::of_object(memory, pfn).ok().flatten()?;
        // Else it was freed in between, and is another page's.
        (find() == Some(pfn)).then_some(frame)
    }
}

/// The pages that a load at `page` of a mapping of `all` pages maps, at most `size`: from the start of an
/// aligned window on, or from that of the mapping, if it begins in the window. In one table.
fn window(page: Vpn, size: u64, all: VpnRange) -> VpnRange {
    let start = Vpn(page.0 & !(size - 1)).max(all.start);
    VpnRange::new(start, start.add(size)).intersect(all).intersect(pages_of(Order::HUGE, page))
}
