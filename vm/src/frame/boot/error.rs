//! Why a boot map is refused.

use super::{BootMap, MAX_PHYS_BITS};
use crate::sync::RegisterError;
use crate::units::PAGE_SIZE;
use core::fmt;

/// Why boot memory is refused. `region` counts from 0 in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootError {
    /// More regions than [`BootMap::MAX_REGIONS`].
    TooManyRegions,
    /// The region has no bytes.
    Empty {
        /// Its index.
        region: u8,
    },
    /// Start or length is not a multiple of 4096.
    Unaligned {
        /// Its index.
        region: u8,
    },
    /// The region ends beyond [`MAX_PHYS_BITS`], or wraps around.
    BeyondAddresses {
        /// Its index.
        region: u8,
    },
    /// The region starts below its predecessor.
    Unsorted {
        /// Its index.
        region: u8,
    },
    /// The region starts before its predecessor ends.
    Overlap {
        /// Its index.
        region: u8,
    },
    /// More nodes with usable memory than [`Memory`](crate::frame::Memory) has zones.
    TooManyNodes,
    /// More CPUs than the platform's [`Cpu::CpuWords`](crate::machine::Cpu::CpuWords) can name.
    TooManyCpus,
    /// The machine refuses to give a usable region ([`Machine::claim_memory`]): it is no memory, or in use,
    /// as after a first system on the same memory.
    ///
    /// [`Machine::claim_memory`]: crate::machine::Machine::claim_memory
    NotFree,
    /// No usable region.
    NoMemory,
    /// Usable memory does not suffice for the library's own records.
    TooSmall,
    /// The machine's handler of interrupts is another system's, which lives, or was leaked: a machine has one
    /// system at a time, whatever memory each has.
    HandlerTaken,
}

impl From<RegisterError> for BootError {
    fn from(why: RegisterError) -> Self {
        match why {
            RegisterError::NoMemory => BootError::TooSmall,
            RegisterError::Taken => BootError::HandlerTaken,
        }
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootError::TooManyRegions => {
                write!(f, "the boot map has more than {} regions", BootMap::MAX_REGIONS)
            }
            BootError::Empty { region } => write!(f, "boot region {region} is empty"),
            BootError::Unaligned { region } => {
                write!(f, "boot region {region} does not start and end on multiples of {PAGE_SIZE}")
            }
            BootError::BeyondAddresses { region } => {
                write!(f, "boot region {region} ends beyond {MAX_PHYS_BITS} bits of physical address")
            }
            BootError::Unsorted { region } => write!(f, "boot region {region} lies before the one before it"),
            BootError::Overlap { region } => write!(f, "boot region {region} overlaps the one before it"),
            BootError::TooManyNodes => f.write_str("usable boot memory belongs to too many nodes"),
            BootError::TooManyCpus => {
                f.write_str("the machine has more CPUs than the platform's sets of CPUs can name")
            }
            BootError::NotFree => f.write_str("usable boot memory is no memory of the machine, or in use"),
            BootError::NoMemory => f.write_str("the boot map has no usable region"),
            BootError::TooSmall => f.write_str("usable boot memory does not hold the frame records"),
            BootError::HandlerTaken => {
                f.write_str("the machine's handler of interrupts belongs to another system")
            }
        }
    }
}

impl core::error::Error for BootError {}
