//! Pins without a lock. docs/design/pins.md says why they need no fence either.

use super::{MemlockLimit, PinBuffer, PinnedPages, Pins};
use crate::frame::PinnedFrame;
use crate::machine::Machine;
use crate::space::{AddressSpace, Counter};
use crate::sync::ReadGuard;
use crate::table::{EntryRef, FastPinRefusal, walk_cached};
use crate::units::{Access, VirtAddr, Vpn};

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Pins the pages from the one that holds `addr` on, as many as `buffer` has slots, as
    /// [`pin_pages`](Self::pin_pages) does, but only as long as nothing has to be waited for or changed: up
    /// to the first page that is not there, or that a write would give another frame. What was in the buffer
    /// is dropped. (Linux: `pin_user_pages_fast_only`.)
    ///
    /// Called in a read section of the system. Looking up and pinning take no lock, wait for no CPU and
    /// allocate nothing. Freeing may take the lock of a zone's region: of what the buffer had, and of a frame
    /// whose last user went away meanwhile. Of what CPUs share it writes the frames' counts, and the limit's;
    /// of a page that was not used since its accessed bit was cleared, or not written, the entry too.
    ///
    /// *What may be stale.* Each page had its frame, and an entry that allowed the access, at one moment of
    /// this call, another one for each page. A call that unmaps or protects pages meanwhile may have
    /// changed its mappings already; one that had returned before is seen.
    ///
    /// # Errors
    /// Why the first page is not pinned.
    pub fn try_pin_fast<'a, B>(
        &self,
        addr: VirtAddr,
        access: Access,
        limit: &'a MemlockLimit<M::Cpu>,
        mut buffer: B,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Result<PinnedPages<'a, 'v, M, B>, FastPinRefusal>
    where
        B: PinBuffer<'v, M>,
    {
        let (vm, first) = (self.vm, addr.vpn());
        let slots = buffer.as_mut();
        slots.fill_with(|| None);
        let mut charge = limit.charge(slots.len() as u64).ok_or(FastPinRefusal::OverLimit)?;
        let (pinned, refusal) = self.pins().pin_fast_run(first, access, slots, reading);
        if let (0, Some(refusal)) = (pinned, refusal) {
            return Err(refusal);
        }
        let pinned = pinned as u64;
        charge.keep(pinned);
        vm.count_many(Counter::FollPinAcquired, pinned);
        Ok(PinnedPages { vm, buffer, first, charge })
    }
}

impl<'v, M: Machine> Pins<'_, 'v, M> {
    /// Pins pages from `first` on into the slots, until one is refused. Returns how many, and the refusal.
    pub(super) fn pin_fast_run(
        self,
        first: Vpn,
        access: Access,
        slots: &mut [Option<PinnedFrame<'v, M>>],
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> (usize, Option<FastPinRefusal>) {
        let (memory, user_end) = (&self.entries.vm.memory, self.user_end);
        let mut last: Option<EntryRef<'_, '_, M>> = None;
        for (nth, slot) in slots.iter_mut().enumerate() {
            let page = Vpn(first.0 + nth as u64);
            if page >= user_end {
                return (nth, Some(FastPinRefusal::NotPresent));
            }
            // A walk for each table: the next page's entry is the next one there.
            let next = last.take().and_then(|last| last.next());
            let found = next.unwrap_or_else(|| walk_cached(&self.entries.table, page, reading));
            match found.try_pin(memory, access) {
                Ok(frame) => *slot = Some(frame),
                Err(FastPinRefusal::Huge) => match found.try_pin_hugetlb(memory, page, access) {
                    Ok(frame) => {
                        *slot = Some(frame);
                        continue;
                    }
                    Err(refusal) => return (nth, Some(refusal)),
                },
                Err(refusal) => return (nth, Some(refusal)),
            }
            last = Some(found);
        }
        (slots.len(), None)
    }
}
