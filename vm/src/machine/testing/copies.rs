//! Copies of translations, page by page, as a device's tables or a guest's have them: they show what a flush
//! did not tell.

use super::TestMachine;
use crate::machine::{FlushRange, Format};
use crate::units::{Pfn, Rights, Vpn, VpnRange};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::vec::Vec;

/// What a page was translated to.
type Copied = (Pfn, Rights);

/// Copies, by the number of their space and by page, until a flush names them.
#[derive(Debug, Default)]
pub(super) struct Copies {
    kept: Mutex<BTreeMap<(u64, Vpn), Copied>>,
}

impl Copies {
    /// Drops what a flush names.
    pub fn drop_told(&self, space: u64, FlushRange { pages, named, .. }: FlushRange) {
        assert!(pages.is_empty() || pages.covers(named), "CPUs are told {named:?}, beyond {pages:?}");
        let mut kept = self.kept.lock().unwrap();
        if !kept.is_empty() && !pages.is_empty() {
            let told = kept.range((space, pages.start)..(space, pages.end));
            let told: Vec<_> = told.map(|(at, _)| *at).collect();
            for at in told {
                kept.remove(&at);
            }
        }
    }

    fn of(&self, space: u64) -> Vec<(Vpn, Copied)> {
        let kept = self.kept.lock().unwrap();
        let own = kept.range((space, Vpn(0))..=(space, Vpn(u64::MAX)));
        own.map(|(&(_, page), &copy)| (page, copy)).collect()
    }
}

impl<F: Format> TestMachine<F> {
    /// Copies the translations of the pages that allow something: of a huge leaf those of its first two and
    /// its last page.
    pub fn copy_translations(&self, (space, root): (u64, Pfn), pages: VpnRange) {
        let mut page = pages.start;
        while page < pages.end {
            let Some((leaf_pages, _)) = self.walk(root, page) else {
                page = page.add(1);
                continue;
            };
            let last = Vpn(leaf_pages.end.0 - 1);
            for part in [page, page.add(1), last].into_iter().filter(|part| leaf_pages.contains(*part)) {
                if let Some(copy) = self.translation(root, part).filter(|(_, rights)| !rights.is_empty()) {
                    self.copies.kept.lock().unwrap().insert((space, part), copy);
                }
            }
            page = leaf_pages.end;
        }
    }

    /// Whether all that was copied of the space, and that no flush has named since, is what its tables still
    /// say, and no more than they allow. Returns how many copies there are.
    ///
    /// # Errors
    /// A page of which that is not so.
    pub fn check_copies(&self, (space, root): (u64, Pfn)) -> Result<usize, Vpn> {
        let kept = self.copies.of(space);
        let is_right = |page, (pfn, rights): Copied| {
            self.translation(root, page).is_some_and(|now| now.0 == pfn && now.1.contains(rights))
        };
        match kept.iter().find(|(page, copy)| !is_right(*page, *copy)) {
            Some((page, _)) => Err(*page),
            None => Ok(kept.len()),
        }
    }

    /// How many copies there are of any space.
    pub fn nr_copies(&self) -> usize {
        self.copies.kept.lock().unwrap().len()
    }

    fn translation(&self, root: Pfn, page: Vpn) -> Option<Copied> {
        let (pages, leaf) = self.walk(root, page)?;
        Some((leaf.pfn.add(page.0 - pages.start.0), leaf.rights))
    }
}
