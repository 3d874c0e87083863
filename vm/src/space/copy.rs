//! Bytes of a space that another process, or a debugger, reads and writes.
//!
//! ```text
//!   for each page:   load    fault in ─► lock the table: reference ─► unlock ─► copy out ─► put
//!                    store   pin, as for a device                              ─► copy in  ─► unpin
//! ```
//!
//! The space need not be loaded anywhere; its own program's addresses are copied by the fault-fixup routine
//! of the platform instead. Pages come one after the other: a copy of several is not one instant of the
//! other process.
//!
//! # Stores, and those that are forced
//!
//! A store goes through a pin: the frame is the space's own (*exclusive*) or an object's, it was found under
//! the lock of the page's table, and the page keeps it until the pin is dropped (docs/design/pins.md). So
//! there is no instant at which a mapping that may not be written, and a frame that others have, are combined
//! into a store: a *forced* store asks for the same frame, and only leaves out the question whether the
//! program may write. A page that is discarded meanwhile (`MADV_DONTNEED`) leaves its frame to the pin, and
//! the bytes go with it; the zero page, and frames that a fork shares, are never pinned. Memory of objects is
//! written by a forced store only where the mapping allows it: others have it too.

use super::fault::{Locked, Prepared, Proof, Speculated, VmaLocked};
use super::pin::{PinUse, Pins, error_of};
use super::{AddressSpace, Error, Fallback, Fault, Path};
use crate::frame::FrameRef;
use crate::machine::{Entry, Machine};
use crate::table::walk_cached;
use crate::units::{Access, Level, PAGE_SIZE, VirtAddr, Vpn};
use crate::vma::Backing;

/// What a page holds, to be copied from.
enum Readable<'v, M: Machine> {
    Zeros,
    Frame(FrameRef<'v, M>),
    /// Of a huge page, copied already: a reference to its folio would be one to the first frame.
    Copied,
}

/// Bytes that are copied from a page, from an offset on.
struct PagePart<'a> {
    offset: usize,
    to: &'a mut [u8],
}

/// Number of times that an attempt makes the page present, which another thread may undo.
const TRIES: usize = 2;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Copies bytes of the space, from `addr` on, as its program would load them: absent pages are made
    /// present. Returns how many: fewer than asked for where a page cannot be loaded from. (Linux:
    /// `process_vm_readv`, of one piece.)
    ///
    /// Called with no lock held and outside any read section; may sleep. Locks no range, or a page to read.
    ///
    /// # Errors
    /// Where the first page is such: [`Error::Fault`] where it is not mapped, not to be loaded from, or
    /// [PFN-mapped](super::MapBacking::Pfn) memory; [`Error::NoMemory`].
    pub fn copy_from(&self, addr: VirtAddr, to: &mut [u8]) -> Result<usize, Error> {
        self.copies().load(addr, to)
    }

    /// Copies bytes to the space, to `addr` and on, as its program would store them: absent pages are made
    /// present, shared frames copied. Returns how many: fewer than given where a page cannot be stored to.
    /// (Linux: `process_vm_writev`, of one piece.)
    ///
    /// Called as [`copy_from`](Self::copy_from).
    ///
    /// # Errors
    /// As of [`copy_from`](Self::copy_from).
    pub fn copy_to(&self, addr: VirtAddr, from: &[u8]) -> Result<usize, Error> {
        self.copies().store(addr, from, PinUse::Access(Access::Write))
    }

    /// As [`copy_to`](Self::copy_to), also to private memory that the program may not write, or not access at
    /// all, which it may not afterwards either: breakpoints of a debugger. Never to the zero page or to a
    /// frame that another space has; shared memory is written where the mapping allows that. (Linux:
    /// `/proc/pid/mem`, `PTRACE_POKEDATA`.)
    ///
    /// # Errors
    /// As of [`copy_from`](Self::copy_from).
    pub fn copy_to_forced(&self, addr: VirtAddr, from: &[u8]) -> Result<usize, Error> {
        self.copies().store(addr, from, PinUse::ForcedWrite)
    }

    #[inline(always)]
    fn copies(&self) -> Copies<'_, 'v, M> {
        Copies { pins: self.pins() }
    }
}

/// The copies of a space's bytes: loads by way of the faults and entries that pins have, stores by pins.
struct Copies<'s, 'v, M: Machine> {
    pins: Pins<'s, 'v, M>,
}

impl<M: Machine> Clone for Copies<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Copies<'_, '_, M> {}

impl<'v, M: Machine> Copies<'_, 'v, M> {
    fn load(self, addr: VirtAddr, to: &mut [u8]) -> Result<usize, Error> {
        let len = to.len();
        self.each_page(addr, len, |page, offset, done, here| {
            let mut part = PagePart { offset, to: &mut to[done..done + here] };
            match self.source(page, &mut part)? {
                Readable::Zeros => part.to.fill(0),
                Readable::Frame(frame) => frame.read(offset, part.to),
                Readable::Copied => {}
            }
            Ok(())
        })
    }

    fn store(self, addr: VirtAddr, from: &[u8], for_use: PinUse) -> Result<usize, Error> {
        self.each_page(addr, from.len(), |page, offset, done, here| {
            let pinned = self.pins.pin_page(page, for_use)?;
            pinned.write(offset, &from[done..done + here]);
            self.pins.entries.vm.note_stored(pinned.pfn());
            Ok(())
        })
    }

    /// Calls `copy` for the part of each page: the page, the first byte there, bytes done, bytes of the part.
    /// Stops at an error, which is returned where nothing was copied.
    fn each_page(
        self,
        addr: VirtAddr,
        len: usize,
        mut copy: impl FnMut(Vpn, usize, usize, usize) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut done = 0;
        while done < len {
            let at = addr.checked_add(done as u64).filter(|at| at.vpn() < self.pins.user_end);
            let copied = at.ok_or(Error::Fault).and_then(|at| {
                let offset = at.0 as usize % PAGE_SIZE;
                let here = (PAGE_SIZE - offset).min(len - done);
                copy(at.vpn(), offset, done, here).map(|()| here)
            });
            match copied {
                Ok(here) => done += here,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// What the page holds, as a load finds it.
    fn source(self, page: Vpn, part: &mut PagePart<'_>) -> Result<Readable<'v, M>, Error> {
        let mut prepared = Prepared::new(self.pins.entries.vm);
        let unlocked = match self.pins.faults.path() {
            Path::Speculative => self.source_attempt(page, part, &Speculated, &mut prepared).ok(),
            Path::VmaLock => self.source_attempt(page, part, &VmaLocked, &mut prepared).ok(),
            Path::Locked => None,
        };
        if let Some(found) = unlocked {
            return Ok(found);
        }
        let found = self.pins.faults.until_resolved(
            (page, "copy"),
            &mut prepared,
            None,
            |prepared, after_writers| {
                let guard = self.pins.faults.read_lock_page(page, after_writers);
                self.source_attempt(page, part, &Locked::new(&guard), prepared)
            },
        );
        found.map_err(error_of)
    }

    fn source_attempt<P: Proof<M>>(
        self,
        page: Vpn,
        part: &mut PagePart<'_>,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Readable<'v, M>, Fallback> {
        for _ in 0..TRIES {
            if let Some(found) = self.present_source(page, part, proof)? {
                return Ok(found);
            }
            self.pins.faults.attempt(Fault { addr: page.addr(), access: Access::Read }, proof, prepared)?;
        }
        Err(Fallback::EntryBusy)
    }

    /// What the page holds, if it is present and its entry allows loads.
    fn present_source<P: Proof<M>>(
        self,
        page: Vpn,
        part: &mut PagePart<'_>,
        proof: &P,
    ) -> Result<Option<Readable<'v, M>>, Fallback> {
        let vm = self.pins.entries.vm;
        let reading = vm.rcu.read();
        let vma = self.pins.faults.find_cached(&reading, page).ok_or(Fallback::VmaMissing)?;
        let _held = proof.hold(vma, &reading).ok_or(Fallback::VmaLocked)?;
        if !vma.rights().contains(Access::Read.needs()) {
            return Err(Fallback::VmaAccess);
        }
        if matches!(vma.backing().get(), Backing::Pfn(_)) {
            return Err(Fallback::VmaNotSupported);
        }
        let entry = walk_cached(&self.pins.entries.table, page, &reading);
        let is_base = entry.table.level() == Level::Pte;
        if !is_base && !matches!(entry.entry(), Entry::Leaf(_)) {
            return Ok(None);
        }
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        self.pins.faults.confirm(proof, vma, page, &reading).ok_or(Fallback::VmaChanged)?;
        if !is_base {
            if table.is_readable_zero(entry.slot) {
                return Ok(Some(Readable::Zeros));
            }
            let is_copied = table.copy_from_huge(entry.slot, page, part.offset, part.to);
            return Ok(is_copied.then_some(Readable::Copied));
        }
        let Some(pfn) = table.readable(entry.slot) else { return Ok(None) };
        if pfn == vm.memory.zero_frame() {
            return Ok(Some(Readable::Zeros));
        }
        // The entry keeps the frame, so a reference is refused only where the count would overflow.
        let frame = vm.memory.try_get(pfn).ok_or(Fallback::NoMemory)?;
        Ok(Some(Readable::Frame(frame)))
    }
}
