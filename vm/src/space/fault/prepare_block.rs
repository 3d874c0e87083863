//! Blocks that a fault prepares: for a huge page, or of a size between a base page and a huge page.

use super::Fallback;
use super::prepare::{Prepared, Rare};
use crate::frame::ZeroedFolio;
use crate::machine::Machine;
use crate::space::Counter;
use crate::units::Order;
use crate::vma::OrderSet;

/// What is prepared for a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreparedHuge {
    /// Nothing yet.
    Nothing,
    /// A block.
    Ready,
    /// There was none.
    Lacking,
}

/// Huge pages.
impl<'v, M: Machine> Prepared<'v, M> {
    /// What is prepared for a huge page.
    pub fn huge(&self) -> PreparedHuge {
        match self.rare {
            Rare::Huge(_) => PreparedHuge::Ready,
            Rare::HugeLacking => PreparedHuge::Lacking,
            _ => PreparedHuge::Nothing,
        }
    }

    /// Whether a block for a huge page is prepared; `false` where none is to be had, and the fault makes do
    /// with a base page. Takes no lock and allocates nothing: where no zone has a block, that is said at
    /// once, without another attempt.
    ///
    /// # Errors
    /// [`Fallback::HugeUnprepared`] where one is to be allocated before the next attempt.
    pub fn has_huge(&mut self) -> Result<bool, Fallback> {
        match self.huge() {
            PreparedHuge::Ready => Ok(true),
            PreparedHuge::Lacking => Ok(false),
            PreparedHuge::Nothing if self.vm.memory.may_have_block(self.placement, Order::HUGE) => {
                self.rare = Rare::HugeWanted;
                Err(Fallback::HugeUnprepared)
            }
            PreparedHuge::Nothing => {
                self.note_lack_of_huge();
                Ok(false)
            }
        }
    }

    fn note_lack_of_huge(&mut self) {
        self.vm.count(Counter::ThpFaultFallback);
        self.rare = Rare::HugeLacking;
    }

    /// Allocates a block for a huge page, or of a size between, if the last attempt wanted one; where none is
    /// free, the next one makes do with base pages. Called with no lock held and outside any read section: a
    /// block takes as long to zero as hundreds of faults, so idle helpers zero parts of it.
    #[cold]
    #[inline(never)]
    pub fn prepare_huge(&mut self) {
        if let Rare::BlockWanted(orders) = self.rare {
            return self.prepare_block(orders);
        }
        if !matches!(self.rare, Rare::HugeWanted) {
            return self.prepare_shared_huge();
        }
        match self.vm.memory.alloc_zeroed_folio_by(self.placement, Order::HUGE, self.vm.workers) {
            Some(folio) => self.rare = Rare::Huge(folio),
            None => self.note_lack_of_huge(),
        }
    }

    /// Takes the block for a huge page.
    pub fn take_huge(&mut self) -> Option<ZeroedFolio<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::Huge(folio) => Some(folio),
            _ => None,
        }
    }

    /// Notes that the huge zero page is wanted, and is to be allocated.
    pub fn want_huge_zero(&mut self) {
        self.rare = Rare::HugeZeroWanted;
    }

    /// Whether the last attempt wanted the huge zero page.
    pub fn wants_huge_zero(&self) -> bool {
        matches!(self.rare, Rare::HugeZeroWanted)
    }

    /// Notes whether there is a huge zero page now; where there is none, the next attempt makes do with a
    /// small one.
    pub fn note_huge_zero(&mut self, is_there: bool) {
        self.rare = if is_there { Rare::Nothing } else { Rare::HugeLacking };
    }
}

/// Sizes between.
impl<'v, M: Machine> Prepared<'v, M> {
    /// The order of the block that is prepared, which is one of `orders`; `None` where no such block is to be
    /// had, and the fault makes do with a base page. A block of another order is freed, as zeroed: other
    /// faults have installed something where it was to go. Takes no lock and allocates nothing: where no zone
    /// has a block of any of the orders, that is said at once, without another attempt.
    ///
    /// # Errors
    /// [`Fallback::HugeUnprepared`] where one is to be allocated before the next attempt.
    pub fn has_block(&mut self, orders: OrderSet) -> Result<Option<Order>, Fallback> {
        match &self.rare {
            Rare::Block(folio) if orders.contains(folio.order()) => Ok(Some(folio.order())),
            Rare::BlockLacking => Ok(None),
            _ => {
                let orders = self.orders_that_may_be_free(orders);
                if orders.is_empty() {
                    self.rare = Rare::BlockLacking;
                    return Ok(None);
                }
                self.rare = Rare::BlockWanted(orders);
                Err(Fallback::HugeUnprepared)
            }
        }
    }

    /// The orders without the largest ones of which no zone has a block, each of which is counted.
    fn orders_that_may_be_free(&self, mut orders: OrderSet) -> OrderSet {
        while let Some(order) = orders.largest()
            && !self.vm.memory.may_have_block(self.placement, order)
        {
            self.note_lack_of(order);
            orders = orders.without(order);
        }
        orders
    }

    fn note_lack_of(&self, order: Order) {
        if let Some(counter) = Counter::anon_fault_fallback(order) {
            self.vm.count(counter);
        }
    }

    /// Allocates a block of the largest order that is free. Each that is not is counted.
    fn prepare_block(&mut self, mut orders: OrderSet) {
        self.rare = Rare::BlockLacking;
        while let Some(order) = orders.largest() {
            if let Some(folio) = self.vm.memory.alloc_zeroed_folio(self.placement, order) {
                self.rare = Rare::Block(folio);
                return;
            }
            self.note_lack_of(order);
            orders = orders.without(order);
            if mutant!("sizes.smaller-not-tried") {
                return;
            }
        }
    }

    /// Takes the block of a size between.
    pub fn take_block(&mut self) -> Option<ZeroedFolio<'v, M>> {
        match core::mem::replace(&mut self.rare, Rare::Nothing) {
            Rare::Block(folio) => Some(folio),
            _ => None,
        }
    }
}
