//! What slots hold that are neither absent nor present: one row of rules for each kind.
//!
//! | kind | payload | fault | zap | fork | owns |
//! |---|---|---|---|---|---|
//! | `Busy` | | waits | cleared | | |
//! | `PendingFree` | a frame | waits for the edit | stays | | a mapping of it |
//! | `HugetlbReserved` | | filled by the source | cleared | | a page of the pool |
//! | `Swap` | a slot | filled by the source | cleared | the same | the slot |
//! | `Migrating` | a frame | waits | cleared | | a mapping of it |
//! | `Guard` | | refused | cleared | the same | |
//! | `Poisoned` | why | a bus error | cleared | the same | |
//!
//! An operation asks for the rule and does the same for every kind. Nothing makes `Swap`, `Migrating` and
//! `Guard` yet: words of them are understood, and kept from being taken for anything else.
//!
//! A word that decodes to no kind is [`None`] everywhere: never waited for, never filled, and cleared with
//! its mapping. Numbers of kinds have an odd number of bits, so that a word of which one bit is wrong is no
//! other kind's.

use crate::machine::{Entry, Marker};
use crate::units::Pfn;

/// Why a slot is neither absent nor present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotMarker {
    /// An operation holds the slot while it flushes or copies.
    Busy,
    /// The slot mapped the frame, and owns that mapping until a flush has ended. It belongs to the edit that
    /// wrote it, which takes it out.
    PendingFree(Pfn),
    /// No page yet, in a mapping of the hugetlb pool, which keeps one for this slot.
    HugetlbReserved,
    /// The page lies on a swap device.
    Swap(SwapSlot),
    /// The frame is being moved; what it holds is there.
    Migrating(Pfn),
    /// No page, and never one: the access is refused as where nothing is mapped.
    Guard,
    /// There was a page.
    Poisoned(Poison),
}

/// A page on a swap device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapSlot {
    /// Whether the page was the space's alone.
    pub exclusive: bool,
    /// The device, below 2^5.
    pub device: u8,
    /// The page of the device, below 2^34.
    pub offset: u64,
}

/// Why there is no page any more: an access is a bus error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Poison {
    /// The hugetlb page was unmapped by the space that had reserved it.
    HugetlbUnmapped,
}

/// What a fault does at a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFault {
    /// It waits for the CPU that is at work here, or gives up.
    Wait,
    /// It waits for the end of the call that has left a frame there.
    WaitForZap,
    /// It gets what the mapping's source has for the marker.
    Fill,
    /// It is refused.
    Deny,
    /// It ends in a bus error.
    BusError,
}

/// What clearing a range does at a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnZap {
    /// It is cleared. What it owns was given back before.
    Clear,
    /// It stays: it is another edit's.
    Leave,
}

/// What a child gets of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFork {
    /// The same.
    Copy,
    /// Nothing.
    Skip,
}

const BUSY: u64 = 1;
const HUGETLB_RESERVED: u64 = 7;
const POISONED: u64 = 8;
const SWAP: u64 = 11;
const MIGRATING: u64 = 13;
const GUARD: u64 = 14;
const HUGETLB_UNMAPPED: u64 = 0;

/// The rules: a row for each kind.
impl SlotMarker {
    /// At a fault.
    pub(crate) const fn on_fault(self) -> OnFault {
        match self {
            Self::Busy | Self::Migrating(_) => OnFault::Wait,
            Self::PendingFree(_) => OnFault::WaitForZap,
            Self::HugetlbReserved | Self::Swap(_) => OnFault::Fill,
            Self::Guard => OnFault::Deny,
            Self::Poisoned(_) => OnFault::BusError,
        }
    }

    /// Where the range is cleared.
    pub(crate) const fn on_zap(self) -> OnZap {
        match self {
            Self::PendingFree(_) => OnZap::Leave,
            Self::Busy | Self::Migrating(_) | Self::HugetlbReserved => OnZap::Clear,
            Self::Swap(_) | Self::Guard | Self::Poisoned(_) => OnZap::Clear,
        }
    }

    /// In a private mapping that is forked.
    pub(crate) const fn on_fork(self) -> OnFork {
        match self {
            Self::Swap(_) | Self::Guard | Self::Poisoned(_) => OnFork::Copy,
            Self::Busy | Self::Migrating(_) | Self::PendingFree(_) | Self::HugetlbReserved => OnFork::Skip,
        }
    }

    /// Whether something goes with the slot that is given back when it is cleared.
    pub(crate) const fn owns(self) -> bool {
        match self {
            Self::PendingFree(_) | Self::HugetlbReserved | Self::Swap(_) | Self::Migrating(_) => true,
            Self::Busy | Self::Guard | Self::Poisoned(_) => false,
        }
    }
}

impl SlotMarker {
    /// The kind and the payload of a word, understood. `None` for a kind that there is not, or a payload that
    /// its kind does not have.
    pub const fn of(marker: Marker) -> Option<Self> {
        Some(match (marker.kind(), marker.payload()) {
            (BUSY, 0) => Self::Busy,
            (Marker::PENDING_FREE, frame) => Self::PendingFree(Pfn(frame)),
            (HUGETLB_RESERVED, 0) => Self::HugetlbReserved,
            (SWAP, payload) => match SwapSlot::of(payload) {
                Some(slot) => Self::Swap(slot),
                None => return None,
            },
            (MIGRATING, frame) => Self::Migrating(Pfn(frame)),
            (GUARD, 0) => Self::Guard,
            (POISONED, HUGETLB_UNMAPPED) => Self::Poisoned(Poison::HugetlbUnmapped),
            _ => return None,
        })
    }

    /// As words hold it.
    #[inline(always)]
    pub const fn marker(self) -> Marker {
        let (kind, payload) = match self {
            Self::Busy => (BUSY, 0),
            Self::PendingFree(frame) => (Marker::PENDING_FREE, frame.0),
            Self::HugetlbReserved => (HUGETLB_RESERVED, 0),
            Self::Swap(slot) => (SWAP, slot.payload()),
            Self::Migrating(frame) => (MIGRATING, frame.0),
            Self::Guard => (GUARD, 0),
            Self::Poisoned(Poison::HugetlbUnmapped) => (POISONED, HUGETLB_UNMAPPED),
        };
        Marker::from_parts(kind, payload)
    }

    /// The entry that holds it.
    #[inline(always)]
    pub const fn entry(self) -> Entry {
        Entry::Marker(self.marker())
    }
}

impl SwapSlot {
    const DEVICE_BITS: u32 = 5;
    const OFFSET_BITS: u32 = 34;

    /// Bit 0: exclusive; then the device; then the offset: as many bits as a payload has. What a number has
    /// beyond its bits is dropped.
    const fn payload(self) -> u64 {
        let device = (self.device as u64) & ((1 << Self::DEVICE_BITS) - 1);
        let offset = self.offset & ((1 << Self::OFFSET_BITS) - 1);
        (offset << Self::DEVICE_BITS | device) << 1 | self.exclusive as u64
    }

    const fn of(payload: u64) -> Option<Self> {
        if payload >> Marker::PAYLOAD_BITS != 0 {
            return None;
        }
        let device = (payload >> 1 & ((1 << Self::DEVICE_BITS) - 1)) as u8;
        let offset = payload >> (1 + Self::DEVICE_BITS);
        Some(Self { exclusive: payload & 1 != 0, device, offset })
    }
}

const _: () = assert!(1 + SwapSlot::DEVICE_BITS + SwapSlot::OFFSET_BITS == Marker::PAYLOAD_BITS);

/// The rule of a word at a fault. Out of line: faults seldom meet a marker.
#[cold]
#[inline(never)]
pub(crate) const fn fault_rule(marker: Marker) -> Option<OnFault> {
    match SlotMarker::of(marker) {
        Some(marker) => Some(marker.on_fault()),
        None => None,
    }
}
