//! A run of frames owned as a value, and how one is asked for.

use super::{Init, Priority};
use crate::units::{Order, Pfn, PfnRange};

/// A block of frames that its holder owns. It is given back by [`Memory::free`](super::Memory::free);
/// dropping it leaks the frames, which [`Memory::check`](super::Memory::check) shows as handed out.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "frames that are not freed are leaked"]
pub struct Folio {
    pfn: Pfn,
    order: Order,
}

impl Folio {
    pub(super) fn new(pfn: Pfn, order: Order) -> Self {
        Self { pfn, order }
    }

    /// First frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// log2 of the number of frames.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The frames.
    pub fn frames(&self) -> PfnRange {
        PfnRange::new(self.pfn, self.pfn.add(self.order.frames()))
    }

    /// Gives up ownership as a value; whoever notes the frame number owns the frames now.
    pub fn into_pfn(self) -> Pfn {
        self.pfn
    }

    /// Ownership of frames that [`into_pfn`](Folio::into_pfn) gave up.
    ///
    /// # Safety
    /// `pfn` and `order` are those of a folio given up, and nobody else makes a folio of it.
    pub unsafe fn from_pfn(pfn: Pfn, order: Order) -> Self {
        Self { pfn, order }
    }
}

/// How memory is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// What the bytes must be: `Dirty` for anything.
    pub init: Init,
    /// How much it matters.
    pub priority: Priority,
}

impl AllocRequest {
    /// Anything; may fail.
    pub const DIRTY: Self = Self { init: Init::Dirty, priority: Priority::Normal };
    /// Zeroed; may fail.
    pub const ZEROED: Self = Self { init: Init::Zeroed, priority: Priority::Normal };

    /// The same with another priority.
    pub const fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }
}
