//! One page is pinned: the steps, under either proof that a fault has.
//!
//! The frame is looked at, and its counts are raised, under the lock of the table that maps it. So no fork
//! shares it in between, and no write copies it.

use super::Pins;
use crate::frame::{FrameRef, PinnedFrame};
use crate::machine::{Cpu, Machine};
use crate::space::fault::{Locked, Prepared, Proof, Speculated, VmaLocked};
use crate::space::{Error, Fallback, Fault, FaultError, Path};
use crate::table::walk_cached;
use crate::units::{Access, Level, PageSize, Rights, Vpn};
use crate::vma::Vma;

/// What a page is pinned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space) enum PinUse {
    /// Accesses that the mapping allows.
    Access(Access),
    /// Stores that the mapping need not allow where it is private: those of a debugger. The page gets a frame
    /// that is the space's own, as for any other pin. (Linux: `FOLL_FORCE | FOLL_WRITE`.)
    ForcedWrite,
}

impl PinUse {
    /// The rights that the page needs for it; `None` where the mapping refuses it.
    fn needs<C: Cpu>(self, vma: &Vma<C>) -> Option<Rights> {
        let (rights, write) = (vma.rights(), Access::Write.needs());
        match self {
            PinUse::Access(access) => rights.contains(access.needs()).then_some(access.needs()),
            PinUse::ForcedWrite if rights.contains(write) => Some(write),
            // As Linux: not of hugetlb.
            PinUse::ForcedWrite if vma.is_private() && vma.hugetlb_size().is_none() => Some(Rights::empty()),
            PinUse::ForcedWrite => mutant!("pin.forced-into-shared").then_some(Rights::empty()),
        }
    }

    /// What is done through the pin.
    fn access(self) -> Access {
        match self {
            PinUse::Access(access) => access,
            PinUse::ForcedWrite => Access::Write,
        }
    }
}

/// A page could not be pinned.
enum NotPinned {
    /// As a fault there.
    Fallback(Fallback),
    /// The page has no frame yet that may be pinned; the rights that its mapping needs for it, and has.
    NotPinnable(Rights),
}

/// A count of the frame is at its maximum.
struct TooManyPins;

/// Number of times that an attempt makes the page pinnable, which another thread may undo.
const TRIES: usize = 2;

impl<'v, M: Machine> Pins<'_, 'v, M> {
    /// Pins the page: without the space's lock, and where that gives up, under it.
    pub(in crate::space) fn pin_page(self, page: Vpn, for_use: PinUse) -> Result<PinnedFrame<'v, M>, Error> {
        let mut prepared = Prepared::new(self.entries.vm);
        let unlocked = match self.faults.path() {
            Path::Speculative => self.pin_attempt(page, for_use, &Speculated, &mut prepared).ok(),
            Path::VmaLock => self.pin_attempt(page, for_use, &VmaLocked, &mut prepared).ok(),
            Path::Locked => None,
        };
        let pinned = match unlocked {
            Some(pinned) => pinned,
            None => self
                .faults
                .until_resolved((page, "pin"), &mut prepared, None, |prepared, after_writers| {
                    let guard = self.faults.read_lock_page(page, after_writers);
                    self.pin_attempt(page, for_use, &Locked::new(&guard), prepared)
                })
                .map_err(error_of)?,
        };
        pinned.map_err(|TooManyPins| Error::NoMemory)
    }

    /// Tries once to pin the page; the error in `Ok` is one that no other attempt mends.
    fn pin_attempt<P: Proof<M>>(
        self,
        page: Vpn,
        for_use: PinUse,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Result<PinnedFrame<'v, M>, TooManyPins>, Fallback> {
        for _ in 0..TRIES {
            match self.pin_present(page, for_use, proof) {
                Ok(pinned) => return Ok(pinned),
                Err(NotPinned::Fallback(reason)) => return Err(reason),
                Err(NotPinned::NotPinnable(needs)) => {
                    // A forced store gives the program no right: the page is made ready as for a load.
                    let is_forced = for_use == PinUse::ForcedWrite && !needs.contains(Access::Write.needs());
                    let access = if is_forced { Access::Read } else { for_use.access() };
                    self.faults.unshare(Fault { addr: page.addr(), access }, needs, proof, prepared)?;
                }
            }
        }
        Err(Fallback::EntryBusy)
    }

    /// Pins the frame that the page has, if that may be pinned as it is.
    fn pin_present<P: Proof<M>>(
        self,
        page: Vpn,
        for_use: PinUse,
        proof: &P,
    ) -> Result<Result<PinnedFrame<'v, M>, TooManyPins>, NotPinned> {
        let reading = self.entries.vm.rcu.read();
        let vma = self.faults.find_cached(&reading, page).ok_or(NotPinned::Fallback(Fallback::VmaMissing))?;
        let _held = proof.hold(vma, &reading).ok_or(NotPinned::Fallback(Fallback::VmaLocked))?;
        let needs = for_use.needs(vma).ok_or(NotPinned::Fallback(Fallback::VmaAccess))?;
        let entry = walk_cached(&self.entries.table, page, &reading);
        let (level, pool_size) = (entry.table.level(), vma.hugetlb_size());
        if level != Level::Pte && pool_size.map(PageSize::level) != Some(level) {
            return Err(NotPinned::NotPinnable(needs));
        }
        let mut table = entry.table.lock().ok_or(NotPinned::Fallback(Fallback::PmdChanged))?;
        if self.faults.confirm(proof, vma, page, &reading).is_none() {
            return Err(NotPinned::Fallback(Fallback::VmaChanged));
        }
        let pfn =
            table.pinnable(entry.slot, needs, !vma.is_private()).ok_or(NotPinned::NotPinnable(needs))?;
        // The reference first: a pincount is at most the refcount. The entry keeps the frame, so a reference
        // is refused only where the count would overflow.
        let pin = |frame: FrameRef<'v, M>| match pool_size {
            None => frame.pin().ok(),
            Some(size) => frame.pin_part(page.0 & (size.pages() - 1)).ok(),
        };
        let Some(pinned) = self.entries.vm.memory.try_get(pfn).and_then(pin) else {
            return Ok(Err(TooManyPins));
        };
        table.note_pinned(entry.slot, for_use.access());
        Ok(Ok(pinned))
    }
}

/// What a pin returns where a fault would end with a signal.
pub(in crate::space) fn error_of(error: FaultError) -> Error {
    match error {
        FaultError::NoMemory => Error::NoMemory,
        FaultError::NotMapped
        | FaultError::NotAllowed
        | FaultError::NotSupported
        | FaultError::HugetlbEmpty
        | FaultError::Beyond
        | FaultError::Stalled => Error::Fault,
    }
}
