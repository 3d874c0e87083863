//! mTHP sizes: the first store to a page brings its neighbours with it.
//!
//! The largest size is taken whose pages, aligned, lie in one mapping that may have it, and of which none was
//! touched. From then on they are pages like any others.

use super::{Contents, Model, Page};
use crate::calls::PAGE;
use interleaf::vma::MthpPolicies;
use std::ops::Range;

impl Model {
    /// A store to private memory at `addr`: where its page was not touched, the folio around it comes.
    pub(super) fn fill_folio(&mut self, addr: u64) {
        let Some(folio) = self.folio_around(addr) else { return };
        let own = || Page::Own(Contents::default());
        self.pages.extend(folio.clone().step_by(PAGE as usize).map(|page| (page, own())));
        self.note_folio(folio);
    }

    fn folio_around(&self, addr: u64) -> Option<Range<u64>> {
        let huge = self.setting.huge;
        let folio = |order: interleaf::units::Order| {
            let start = addr & !(order.bytes() as u64 - 1);
            (huge.sizes.policy(order).resolve(huge.policy), start..start + order.bytes() as u64)
        };
        let mut folios = MthpPolicies::orders().rev().map(folio);
        let fits = |(policy, range): &(_, Range<u64>)| {
            self.may_be_folio(*policy, range) && self.pages.range(range.clone()).next().is_none()
        };
        folios.find(fits).map(|(_, range)| range)
    }
}
