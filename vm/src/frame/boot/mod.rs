//! Boot: from the firmware's memory map to the first allocation.
//!
//! | file | holds |
//! |---|---|
//! | `map` | [`BootMap`]: the firmware's regions, checked |
//! | `memory` | [`BootMemory`]: the map's usable memory, claimed from the machine |
//! | `error` | [`BootError`]: why a map is refused |
//! | `allocator` | memory never freed: [`EarlyAllocator`] until start, [`BootAllocator`] afterwards |
//! | `records` | memory for the frame records, on the nodes of the frames |
//! | `setup` | [`EarlySetup`]: records, zones and caches in boot memory, first frames to the zones |
//! | `deferred` | frame records that are initialised later, on demand or by a job |

mod allocator;
mod deferred;
mod error;
mod map;
mod memory;
mod records;
mod setup;

#[cfg(all(test, not(loom)))]
#[path = "../tests/record_window.rs"]
mod record_window_tests;
#[cfg(all(test, not(loom)))]
#[path = "../tests/record_writers.rs"]
mod record_writers_tests;

pub use allocator::{BootAllocator, EarlyAllocator};
pub(in crate::frame) use deferred::Deferred;
pub use deferred::{DeferredInit, NodeInitReport, RECORDS_WRITTEN, SECTION_FRAMES};
pub use error::BootError;
pub use map::{BootMap, MAX_PHYS_BITS, Region, RegionKind};
pub use memory::BootMemory;
pub(in crate::frame) use setup::EarlySetup;
pub use setup::RecordInit;
