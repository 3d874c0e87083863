//! Pins: the frames behind an address, for devices, and for calls that use them without the page table.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`AddressSpace::pin_pages`], and what it returns |
//! | `fast` | [`AddressSpace::try_pin_fast`]: without a lock, or not at all |
//! | `attempt` | one page: under its table's lock, speculatively, then under the space's lock |
//! | `range` | [`AddressSpace::pin_range`]: all of a large range or none of it, by several CPUs |
//! | `limit` | [`MemlockLimit`] |
//!
//! As long as a page of private memory is pinned and stays mapped, it keeps its frame: pins are of frames
//! that are *exclusive*, which a write does not copy, and which a fork does not share. docs/design/pins.md
//! has the protocol.

mod attempt;
mod fast;
mod limit;
mod range;

pub(super) use attempt::{PinUse, error_of};
pub use limit::MemlockLimit;

use super::edit::entries::Entries;
use super::fault::Faults;
use super::{AddressSpace, Counter, Error, Path, Vm};
use crate::frame::PinnedFrame;
use crate::machine::Machine;
use crate::units::{Access, VirtAddr, Vpn, VpnRange};
use core::fmt;
use limit::MemlockCharge;

/// Pinned pages of a space, in a buffer of the caller's. Dropping this unpins them. It may outlive the
/// mapping and the space.
#[must_use = "the pages are unpinned once this is dropped"]
pub struct PinnedPages<'a, 'v, M: Machine + 'v, B: PinBuffer<'v, M>> {
    vm: &'v Vm<'v, M>,
    /// The frames in its first slots are pinned, as many as are charged.
    buffer: B,
    first: Vpn,
    charge: MemlockCharge<'a, M::Cpu>,
}

/// Slots for pinned frames: an array, a slice that is borrowed, or a vector. It is asked for them when it is
/// filled, when frames are looked at, and when they are unpinned, and answers the same: slots that it hides
/// later stay pinned until it is dropped, and are charged to no limit meanwhile. It is asked with nothing
/// held.
pub trait PinBuffer<'v, M: Machine + 'v>:
    AsRef<[Option<PinnedFrame<'v, M>>]> + AsMut<[Option<PinnedFrame<'v, M>>]>
{
}

impl<'v, M: Machine + 'v, B> PinBuffer<'v, M> for B where
    B: AsRef<[Option<PinnedFrame<'v, M>>]> + AsMut<[Option<PinnedFrame<'v, M>>]>
{
}

/// Pages that are pinned in one read section, at most.
const FAST_RUN: usize = 64;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Pins the pages from the one that holds `addr` on, as many as `buffer` has slots, for loads or stores
    /// of a device. What was in the buffer is dropped. Makes absent pages present, as faults would, and gives
    /// private pages a frame of the space's own, also for loads: as long as such a page stays mapped, it
    /// keeps the frame. A later fork gives the child a copy.
    ///
    /// Stops at the first page that cannot be pinned: then there are fewer pages than asked for, and at least
    /// one. (Linux: `pin_user_pages` with `FOLL_LONGTERM`.)
    ///
    /// Pages that are there already are pinned without a lock ([`try_pin_fast`](Self::try_pin_fast)).
    ///
    /// Called with no lock held and outside any read section; may sleep. Locks no range, or the page to
    /// read.
    ///
    /// # Errors
    /// [`Error::Fault`] where the first page is not mapped, or not so that it may be accessed;
    /// [`Error::NoMemory`] where `limit` does not allow so many pages, or there is no memory for the first.
    pub fn pin_pages<'a, B>(
        &self,
        addr: VirtAddr,
        access: Access,
        limit: &'a MemlockLimit<M::Cpu>,
        buffer: B,
    ) -> Result<PinnedPages<'a, 'v, M, B>, Error>
    where
        B: PinBuffer<'v, M>,
    {
        let is_fast = self.path != Path::Locked;
        self.pins().pin_each(addr, access, limit, buffer, is_fast)
    }

    /// As [`pin_pages`](Self::pin_pages), with the lock of its table for each page: what the fast pins are
    /// measured against.
    ///
    /// # Errors
    /// As that.
    pub fn pin_pages_slow<'a, B>(
        &self,
        addr: VirtAddr,
        access: Access,
        limit: &'a MemlockLimit<M::Cpu>,
        buffer: B,
    ) -> Result<PinnedPages<'a, 'v, M, B>, Error>
    where
        B: PinBuffer<'v, M>,
    {
        self.pins().pin_each(addr, access, limit, buffer, false)
    }

    /// The pins of the space.
    #[inline(always)]
    pub(super) fn pins(&self) -> Pins<'_, 'v, M> {
        let user_end = self.mappings.layout.areas.user.end;
        Pins { faults: self.faults(), entries: &self.entries, user_end }
    }
}

/// The pins of a space: of pages that are there by its entries alone, of others by its faults.
pub(super) struct Pins<'s, 'v, M: Machine> {
    pub(super) faults: Faults<'s, 'v, M>,
    pub(super) entries: &'s Entries<'v, M>,
    /// The end of what may be pinned.
    pub(super) user_end: Vpn,
}

impl<M: Machine> Clone for Pins<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Pins<'_, '_, M> {}

impl<'v, M: Machine> Pins<'_, 'v, M> {
    fn pin_each<'a, B>(
        self,
        addr: VirtAddr,
        access: Access,
        limit: &'a MemlockLimit<M::Cpu>,
        mut buffer: B,
        is_fast: bool,
    ) -> Result<PinnedPages<'a, 'v, M, B>, Error>
    where
        B: PinBuffer<'v, M>,
    {
        let (vm, first) = (self.entries.vm, addr.vpn());
        let slots = buffer.as_mut();
        slots.fill_with(|| None);
        let mut charge = limit.charge(slots.len() as u64).ok_or(Error::NoMemory)?;
        let (mut pinned, mut result) = (0, Ok(()));
        while pinned < slots.len() {
            let page = Vpn(first.0 + pinned as u64);
            if is_fast {
                let run = slots.len().min(pinned + FAST_RUN);
                let (more, refusal) =
                    self.pin_fast_run(page, access, &mut slots[pinned..run], &vm.rcu.read());
                pinned += more;
                if refusal.is_none() {
                    continue;
                }
            }
            let page = Vpn(first.0 + pinned as u64);
            let frame = if page < self.user_end {
                self.pin_page(page, PinUse::Access(access))
            } else {
                Err(Error::Fault)
            };
            match frame {
                Ok(frame) => slots[pinned] = Some(frame),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            pinned += 1;
        }
        let pinned = pinned as u64;
        if pinned == 0 {
            result?;
        }
        charge.keep(pinned);
        vm.count_many(Counter::FollPinAcquired, pinned);
        Ok(PinnedPages { vm, buffer, first, charge })
    }
}

impl<'v, M: Machine + 'v, B: PinBuffer<'v, M>> PinnedPages<'_, 'v, M, B> {
    /// Number of pinned pages.
    pub fn len(&self) -> usize {
        self.charge.pages() as usize
    }

    /// Whether no page is pinned: none was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The addresses that were pinned. What is mapped there now may be something else.
    pub fn pages(&self) -> VpnRange {
        VpnRange::new(self.first, self.first.add(self.charge.pages()))
    }

    /// Unpins the pages, with helpers where there are many. As dropping this does it alone, which may be done
    /// where a job may not be run. Called with no lock held and outside any read section; may sleep.
    pub fn unpin(mut self) {
        range::release(self.vm, self.buffer.as_mut());
    }

    /// Says that the pages were stored to, by a device: those of objects that are written back are dirty
    /// then, though they may have been written since they were pinned. Called with no lock held. (Linux:
    /// `unpin_user_pages_dirty_lock`.)
    pub fn note_stored(&self) {
        self.frames().for_each(|frame| self.vm.note_stored(frame.pfn()));
    }

    /// The pinned frames, in the order of their pages.
    pub fn frames(&self) -> impl Iterator<Item = &PinnedFrame<'v, M>> {
        self.buffer.as_ref().iter().flatten()
    }
}

impl<'v, M: Machine + 'v, B: PinBuffer<'v, M>> Drop for PinnedPages<'_, 'v, M, B> {
    fn drop(&mut self) {
        // Before the charge is given back, which is dropped after this.
        self.buffer.as_mut().fill_with(|| None);
        self.vm.count_many(Counter::FollPinReleased, self.charge.pages());
    }
}

impl<'v, M: Machine + 'v, B: PinBuffer<'v, M>> fmt::Debug for PinnedPages<'_, 'v, M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pinned {:?}", self.pages())
    }
}
