//! A block of frames owned as a value.

use crate::units::{Order, Pfn, PfnRange};

/// A block of frames that its holder owns. It is freed by [`Memory::free`](crate::frame::Memory::free);
/// dropping it leaks the frames, which [`Memory::check`](crate::frame::Memory::check) counts as allocated.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "frames that are not freed are leaked"]
pub struct Folio {
    pfn: Pfn,
    order: Order,
}

impl Folio {
    pub(in crate::frame) fn new(pfn: Pfn, order: Order) -> Self {
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

    /// Gives up ownership as a value; the caller owns the frames by their number from now on.
    pub fn into_pfn(self) -> Pfn {
        self.pfn
    }

    /// Ownership of frames that [`into_pfn`](Folio::into_pfn) gave up.
    ///
    /// # Safety
    /// `pfn` and `order` are those of a folio given up, and no other folio is made of them.
    pub unsafe fn from_pfn(pfn: Pfn, order: Order) -> Self {
        Self { pfn, order }
    }
}
