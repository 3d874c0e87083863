//! Pages that come with others: a write fault may install an mTHP folio,
//! and the entries of its pages do not say so.

use super::checker::Checker;
use super::filling::{Had, note_filled};
use super::player::Player;
use super::verdict::Filled;
use interleaf::units::Vpn;
use interleaf::vma::{orders_to_try, pages_of};

impl Checker<'_> {
    /// The absent pages, other than `page`, of the largest folio that a fault there may install.
    pub(super) fn absent_beside(&self, page: Vpn, player: &Player<'_, '_>) -> Vec<Vpn> {
        let (sizes, space) = (self.huge.sizes(), player.space);
        if sizes.is_never() {
            return Vec::new();
        }
        let Some(vma) = space.inspect().vma_at(page.addr()) else { return Vec::new() };
        let orders = orders_to_try(sizes, self.huge.policy, space.thp_disable(), &vma, page);
        let Some(largest) = orders.largest() else { return Vec::new() };
        let folio = pages_of(largest, page);
        let is_absent = |other: &Vpn| *other != page && space.inspect().resident_frame(*other).is_none();
        (folio.start.0..folio.end.0).map(Vpn).filter(is_absent).collect()
    }

    /// Notes, after a fault at `page`, those of the pages that were absent `beside` it which came with it.
    /// Returns how many did.
    pub(super) fn note_folio(
        &mut self,
        page: Vpn,
        beside: Vec<Vpn>,
        player: &Player<'_, '_>,
        filled: &mut Vec<Filled>,
    ) -> u64 {
        if beside.is_empty() || player.huge_page_at(page).is_some() {
            return 0;
        }
        self.brought.remove(page);
        let mut came = 0;
        for other in
            beside.into_iter().filter(|other| player.space.inspect().resident_frame(*other).is_some())
        {
            note_filled(other, Had::NOTHING, player, filled);
            self.brought.insert(other);
            came += 1;
        }
        came
    }
}
