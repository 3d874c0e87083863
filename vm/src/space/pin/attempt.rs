//! One page is pinned: the steps, under either proof that a fault has.
//!
//! The frame is looked at, and its counts are raised, under the lock of the table that maps it. So no fork
//! shares it in between, and no write copies it.

use crate::frame::PinnedFrame;
use crate::machine::Machine;
use crate::space::fault::{Locked, Prepared, Proof, Speculated, unshare};
use crate::space::{AddressSpace, Error, Fallback, Fault, FaultError, Path};
use crate::table::walk_cached;
use crate::units::{Access, Level, Vpn};

/// A page could not be pinned.
enum NotPinned {
    /// As a fault there.
    Fallback(Fallback),
    /// The page has no frame yet that may be pinned for the access.
    NotPinnable,
}

/// A count of the frame is at its maximum.
struct TooManyPins;

/// Number of times that an attempt makes the page pinnable, which another thread may undo.
const TRIES: usize = 2;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Pins the page: without the space's lock, and where that gives up, under it.
    pub(super) fn pin_page(&self, page: Vpn, access: Access) -> Result<PinnedFrame<'v, M>, Error> {
        let fault = Fault { addr: page.addr(), access };
        let mut prepared = Prepared::new(self.vm);
        let speculated = match self.path {
            Path::Speculative => self.pin_attempt(fault, &Speculated, &mut prepared).ok(),
            Path::Locked => None,
        };
        let pinned = match speculated {
            Some(pinned) => pinned,
            None => self
                .until_resolved(&mut prepared, None, |prepared, after_writers| {
                    let guard = self.share_page(page, after_writers);
                    self.pin_attempt(fault, &Locked::new(&guard), prepared)
                })
                .map_err(error_of)?,
        };
        pinned.map_err(|TooManyPins| Error::NoMemory)
    }

    /// Tries once to pin the page; the error in `Ok` is one that no other attempt mends.
    fn pin_attempt<P: Proof<M>>(
        &self,
        fault: Fault,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Result<PinnedFrame<'v, M>, TooManyPins>, Fallback> {
        for _ in 0..TRIES {
            match self.pin_present(fault, proof) {
                Ok(pinned) => return Ok(pinned),
                Err(NotPinned::Fallback(reason)) => return Err(reason),
                Err(NotPinned::NotPinnable) => unshare(self, fault, proof, prepared)?,
            }
        }
        Err(Fallback::EntryBusy)
    }

    /// Pins the frame that the page has, if that may be pinned as it is.
    fn pin_present<P: Proof<M>>(
        &self,
        fault: Fault,
        proof: &P,
    ) -> Result<Result<PinnedFrame<'v, M>, TooManyPins>, NotPinned> {
        let (page, access) = (fault.addr.vpn(), fault.access);
        let reading = self.vm.rcu.read();
        let vma = self.find_cached(&reading, page).ok_or(NotPinned::Fallback(Fallback::VmaMissing))?;
        if !vma.rights().contains(access.needs()) {
            return Err(NotPinned::Fallback(Fallback::VmaAccess));
        }
        let entry = walk_cached(&self.table, page, &reading);
        if entry.table.level() != Level::Pte {
            return Err(NotPinned::NotPinnable);
        }
        let mut table = entry.table.lock().ok_or(NotPinned::Fallback(Fallback::PmdChanged))?;
        if proof.confirm(self, vma, page, &reading).is_none() {
            return Err(NotPinned::Fallback(Fallback::VmaChanged));
        }
        let pfn = table.pinnable(entry.slot, access).ok_or(NotPinned::NotPinnable)?;
        // The reference first: a pincount is at most the refcount. The entry keeps the frame, so a reference
        // is refused only where the count would overflow.
        let Some(pinned) = self.vm.memory.try_get(pfn).and_then(|frame| frame.pin().ok()) else {
            return Ok(Err(TooManyPins));
        };
        table.note_pinned(entry.slot, access);
        Ok(Ok(pinned))
    }
}

/// What a pin returns where a fault would end with a signal.
fn error_of(error: FaultError) -> Error {
    match error {
        FaultError::NoMemory => Error::NoMemory,
        FaultError::NotMapped | FaultError::NotAllowed | FaultError::NotSupported => Error::Fault,
    }
}
