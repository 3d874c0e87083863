//! mTHP sizes: the first store to a page brings its neighbours with it.
//!
//! The largest size is taken whose pages, aligned, lie in one mapping that may have it, and of which none was
//! touched. From then on they are pages like any others.

use super::{Contents, Model, Page};
use crate::calls::PAGE;
use interleaf::vma::MthpPolicies;
use std::ops::Range;

impl Model {
    /// A store to private memory at `addr`: where its page was not touched, the block around it comes.
    pub(super) fn fill_block(&mut self, addr: u64) {
        let Some(block) = self.block_around(addr) else { return };
        let own = || Page::Own(Contents::default());
        self.pages.extend(block.clone().step_by(PAGE as usize).map(|page| (page, own())));
        self.note_block(block);
    }

    fn block_around(&self, addr: u64) -> Option<Range<u64>> {
        let huge = self.setting.huge;
        let block = |order: interleaf::units::Order| {
            let start = addr & !(order.bytes() as u64 - 1);
            (huge.sizes.policy(order).resolve(huge.policy), start..start + order.bytes() as u64)
        };
        let mut blocks = MthpPolicies::orders().rev().map(block);
        let fits = |(policy, range): &(_, Range<u64>)| {
            self.may_be_block(*policy, range) && self.pages.range(range.clone()).next().is_none()
        };
        blocks.find(fits).map(|(_, range)| range)
    }
}
