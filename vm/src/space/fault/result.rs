//! The results of a fault: done ([`Outcome`]), a reason to try again under the lock ([`Fallback`]), or an
//! error ([`FaultError`]).
//!
//! One attempt returns nothing or a [`Fallback`]. Without the space's lock the reason is counted, and the
//! fault left to the locked path; the locked path makes an error of those reasons that another attempt cannot
//! mend.

use crate::space::counters::Counter;
use core::fmt;

/// How a fault was resolved. The access is to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Without the space's lock.
    Speculated,
    /// Without the space's lock, with the mapping's record held.
    VmaLocked,
    /// Under the space's lock, because all faults of the space are.
    Locked,
    /// Under the space's lock, after an attempt without it gave up.
    FellBack(Fallback),
}

/// Why an attempt gave up. Each has its counter, which counts the reasons of attempts without the space's
/// lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// The mapping was replaced meanwhile, or is busy.
    VmaChanged,
    /// Nothing is mapped there: an error, if the space's lock is held.
    VmaMissing,
    /// The entry is of a kind that faults do not handle, as a huge leaf: an error, if the space's lock is
    /// held.
    VmaNotSupported,
    /// The mapping does not allow the access: an error, if the space's lock is held.
    VmaAccess,
    /// A table on the way was detached meanwhile.
    PmdChanged,
    /// Another CPU is changing the entry, which holds a marker, or changed it meanwhile.
    EntryBusy,
    /// A sweep has unhooked the page and has not flushed yet: its frame is still in the slot.
    EntryPending,
    /// No frame without waiting.
    NoMemory,
    /// A fork is under way and has shared the page already: what is written now would be in the child, where
    /// earlier writes are not.
    Forking,
    /// The frame has to be copied, and none was prepared for that.
    CowUnprepared,
    /// A huge page, an mTHP folio, or a page that a pager fills is wanted, and none was prepared.
    Unprepared,
    /// A store to a huge page that others have too: the leaf was split, or no table was prepared for that. A
    /// base page is copied next.
    HugeShared,
    /// The hugetlb pool has no huge page for the entry: an error, if the space's lock is held.
    HugetlbEmpty,
    /// The page lies wholly beyond the end of its object, or that cannot give it: an error, if the space's
    /// lock is held.
    Beyond,
    /// The mapping's record could not be held: it is busy, was replaced after the lookup, or as many readers
    /// hold it as can be counted. Only where records are held.
    VmaLocked,
}

impl Fallback {
    /// All reasons.
    pub const ALL: [Fallback; 15] = [
        Fallback::VmaChanged,
        Fallback::VmaMissing,
        Fallback::VmaNotSupported,
        Fallback::VmaAccess,
        Fallback::PmdChanged,
        Fallback::EntryBusy,
        Fallback::EntryPending,
        Fallback::NoMemory,
        Fallback::Forking,
        Fallback::CowUnprepared,
        Fallback::Unprepared,
        Fallback::HugeShared,
        Fallback::HugetlbEmpty,
        Fallback::Beyond,
        Fallback::VmaLocked,
    ];

    /// Whether another attempt right away may do.
    #[inline(always)]
    pub(super) const fn is_brief(self) -> bool {
        matches!(
            self,
            Self::VmaChanged | Self::EntryBusy | Self::CowUnprepared | Self::Unprepared | Self::HugeShared
        )
    }

    /// Whether the next attempt needs more than this one had, and so has nothing to wait for.
    pub(super) const fn is_unprepared(self) -> bool {
        matches!(self, Self::CowUnprepared | Self::Unprepared | Self::HugeShared)
    }

    /// The counter of this reason.
    pub const fn counter(self) -> Counter {
        match self {
            Fallback::VmaChanged => Counter::SpfVmaChanged,
            Fallback::VmaMissing => Counter::SpfVmaMissing,
            Fallback::VmaNotSupported => Counter::SpfVmaNotSupported,
            Fallback::VmaAccess => Counter::SpfVmaAccess,
            Fallback::PmdChanged => Counter::SpfPmdChanged,
            Fallback::EntryBusy => Counter::SpfEntryBusy,
            Fallback::EntryPending => Counter::SpfEntryPending,
            Fallback::NoMemory => Counter::SpfNoMemory,
            Fallback::Forking => Counter::SpfForking,
            Fallback::CowUnprepared => Counter::SpfCowUnprepared,
            Fallback::Unprepared => Counter::SpfUnprepared,
            Fallback::HugeShared => Counter::SpfHugeShared,
            Fallback::HugetlbEmpty => Counter::SpfHugetlbEmpty,
            Fallback::Beyond => Counter::SpfBeyond,
            Fallback::VmaLocked => Counter::VmaLockAbort,
        }
    }
}

/// Why a page fault cannot be resolved: the thread gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultError {
    /// Nothing is mapped there: `SIGSEGV` with `SEGV_MAPERR`.
    NotMapped,
    /// The mapping does not allow the access: `SIGSEGV` with `SEGV_ACCERR`.
    NotAllowed,
    /// No memory for the page or for a table.
    NoMemory,
    /// The entry is of a kind that faults do not handle: a huge leaf without the right, or an unknown marker.
    NotSupported,
    /// The hugetlb pool has no huge page for the page: `SIGBUS` with `BUS_ADRERR`, unless the page is
    /// [unmapped](crate::space::AddressSpace::unmap_hugetlb_sharers) from children that share it; then the
    /// access is to be tried again.
    HugetlbEmpty,
    /// The page lies wholly beyond the end of the object that is mapped there, or the object cannot give it:
    /// `SIGBUS` with `BUS_ADRERR`.
    Beyond,
    /// What the fault has met is another party's to change, and has not changed for thousands of attempts:
    /// `SIGBUS` with `BUS_ADRERR`. An entry holds a marker that no call of the library is working on, or a
    /// pager says of a page again and again that it is ready, and that it is not.
    Stalled,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultError::NotMapped => "nothing is mapped there",
            FaultError::NotAllowed => "the mapping does not allow the access",
            FaultError::NoMemory => "no memory for the page",
            FaultError::HugetlbEmpty => "the hugetlb pool has no huge page for the page",
            FaultError::NotSupported => "the entry is of a kind that faults do not handle",
            FaultError::Beyond => "the object has no such page, or cannot give it",
            FaultError::Stalled => "another party has the page, and does not go on",
        })
    }
}

impl core::error::Error for FaultError {}
