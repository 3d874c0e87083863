//! Pins of large ranges: all pages or none, by several CPUs. What a guest's memory needs before a device may
//! use it (VFIO).
//!
//! ```text
//!   charge all ─► blocks of slots, a table's pages each ─┬─ caller:  fast runs, refused slowly ─┬─► all
//!                                                        └─ helpers: the same                  ─┘
//!                                           a page that cannot be pinned ─► all slots are emptied ─► none
//! ```
//!
//! The buffer is the caller's, and a worker owns the block that it has taken: a pin is a value in a slot, so
//! what was pinned before a page was refused is given back by emptying the slots, all of them and no others.

use super::{AddressSpace, MemlockLimit, Path, PinBuffer, PinUse, PinnedPages, Pins};
use crate::frame::PinnedFrame;
use crate::machine::Machine;
use crate::space::{Counter, Error, Vm};
use crate::sync::{SpinLock, lockdep};
use crate::units::{Access, Level, VirtAddr, Vpn, VpnRange};
use crate::work::{Chunk, Failed, Job};
use core::convert::Infallible;

type Slots<'v, M> = [Option<PinnedFrame<'v, M>>];

/// Blocks from which on a helper is worth it: some 20 microseconds of fast pins. Few where tests are to see
/// both ways.
const MIN_BLOCKS: u64 = if cfg!(any(loom, debug_assertions)) { 1 } else { 4 };

/// Slots that no worker has taken, and the page of the first.
struct Blocks<'s, 'v, M: Machine> {
    first: Vpn,
    rest: &'s mut Slots<'v, M>,
}

impl<'s, 'v, M: Machine> Blocks<'s, 'v, M> {
    /// Takes the slots of the pages of one table; none where all are taken.
    fn take(&mut self) -> (Vpn, &'s mut Slots<'v, M>) {
        let first = self.first;
        let table_end = (first.0 / Level::Pte.table_pages() + 1) * Level::Pte.table_pages();
        let rest = core::mem::take(&mut self.rest);
        let (block, rest) = rest.split_at_mut(rest.len().min((table_end - first.0) as usize));
        (self.first, self.rest) = (first.add(block.len() as u64), rest);
        (first, block)
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Pins the pages from the one that holds `addr` on, as many as `buffer` has slots, as
    /// [`pin_pages`](Self::pin_pages) does, but all of them or none; with helpers, if there are any and the
    /// range is large. The limit is charged once.
    ///
    /// Called with no lock held and outside any read section; may sleep. Locks no range, or a page to read.
    /// Another thread that unmaps pages of the range meanwhile may make it fail, or have it pin pages that
    /// are gone when it returns.
    ///
    /// # Errors
    /// Why a page is not pinned, as [`pin_pages`](Self::pin_pages) says of its first; [`Error::NoMemory`]
    /// where `limit` does not allow so many. Nothing is pinned or charged then.
    pub fn pin_range<'a, B>(
        &self,
        addr: VirtAddr,
        access: Access,
        limit: &'a MemlockLimit<M::Cpu>,
        mut buffer: B,
    ) -> Result<PinnedPages<'a, 'v, M, B>, Error>
    where
        B: PinBuffer<'v, M>,
    {
        let (vm, first) = (self.vm, addr.vpn());
        let slots = buffer.as_mut();
        slots.fill_with(|| None);
        let nr = slots.len() as u64;
        let user_end = self.mappings.layout.areas.user.end.0;
        if first.0.checked_add(nr).is_none_or(|end| end > user_end) {
            return Err(Error::Fault);
        }
        let charge = limit.charge(nr).ok_or(Error::NoMemory)?;
        let pages = VpnRange::new(first, first.add(nr));
        if let Err(error) = self.pins().pin_blocks(pages, access, slots) {
            if !mutant!("pin.range-kept") {
                release(vm, slots);
            }
            return Err(error);
        }
        vm.count_many(Counter::FollPinAcquired, nr);
        Ok(PinnedPages { vm, buffer, first, charge })
    }
}

impl<'v, M: Machine> Pins<'_, 'v, M> {
    fn pin_blocks(self, pages: VpnRange, access: Access, slots: &mut Slots<'v, M>) -> Result<(), Error> {
        let pinned = each_block(self.entries.vm, pages.start, slots, |first, block| {
            self.pin_block(first, access, block)
        });
        match pinned {
            Ok(()) => Ok(()),
            Err(Failed::Error(error)) => Err(error),
            // A helper that panicked has left a block; it is not known which.
            Err(Failed::Panicked | Failed::Cancelled) => Err(Error::Fault),
        }
    }

    /// Pins the pages of the slots, which one table covers.
    fn pin_block(self, first: Vpn, access: Access, slots: &mut Slots<'v, M>) -> Result<(), Error> {
        let mut pinned = 0;
        while pinned < slots.len() {
            let page = |nth| Vpn(first.0 + nth as u64);
            if self.faults.path() != Path::Locked {
                let run = slots.len().min(pinned + super::FAST_RUN);
                let reading = self.entries.vm.rcu.read();
                let (more, refusal) =
                    self.pin_fast_run(page(pinned), access, &mut slots[pinned..run], &reading);
                drop(reading);
                pinned += more;
                if refusal.is_none() {
                    continue;
                }
            }
            slots[pinned] = Some(self.pin_page(page(pinned), PinUse::Access(access))?);
            pinned += 1;
        }
        Ok(())
    }
}

/// Calls `work` with each block of the slots, and its first page; by a job where there are enough of them.
fn each_block<'v, M: Machine, E: Send>(
    vm: &Vm<'v, M>,
    first: Vpn,
    slots: &mut Slots<'v, M>,
    work: impl Fn(Vpn, &mut Slots<'v, M>) -> Result<(), E> + Sync,
) -> Result<(), Failed<E>> {
    let tables = Level::Pte.table_pages();
    let before = if mutant!("pin.last-block-left") { 0 } else { first.0 % tables };
    let nr = (before + slots.len() as u64).div_ceil(tables);
    let blocks: SpinLock<_, M::Cpu, { lockdep::GATHER.0 }> = SpinLock::new(Blocks { first, rest: slots });
    let next = || {
        let (first, block) = blocks.lock().take();
        work(first, block)
    };
    let Some(workers) = vm.workers.filter(|_| nr >= 2 * MIN_BLOCKS) else {
        return (0..nr).try_for_each(|_| next()).map_err(Failed::Error);
    };
    let job = Job::new(0..nr, |chunk: &Chunk<'_>| chunk.range().try_for_each(|_| next()));
    workers.run(&job.min_chunk(MIN_BLOCKS)).map(drop)
}

/// Empties the slots, by a job where there are many.
pub(super) fn release<'v, M: Machine>(vm: &Vm<'v, M>, slots: &mut Slots<'v, M>) {
    let emptied = each_block(vm, Vpn(0), slots, |_, block| {
        block.fill_with(|| None);
        Ok::<(), Infallible>(())
    });
    if emptied.is_err() {
        slots.fill_with(|| None);
    }
}
