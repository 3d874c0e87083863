//! Copies of translations, page by page, as a device's tables or a guest's have them: what a flush has not
//! told stays here, and a recount finds it.

use interleaf::machine::FlushRange;
use interleaf::units::{Pfn, Rights, Vpn};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What a page was translated to.
pub type Copied = (Pfn, Rights);

/// Copies, by the number of their space and by page, until a flush names them. None before the first ones
/// are kept: a machine that is timed keeps none.
#[derive(Debug, Default)]
pub struct Copies(OnceLock<Mutex<BTreeMap<(u64, Vpn), Copied>>>);

impl Copies {
    /// Drops what a flush names.
    #[inline]
    pub fn drop_told(&self, space: u64, flush: FlushRange) {
        if self.0.get().is_some() && !flush.pages.is_empty() {
            let mut kept = self.kept();
            let told: Vec<_> =
                kept.range((space, flush.pages.start)..(space, flush.pages.end)).map(|(at, _)| *at).collect();
            for at in told {
                kept.remove(&at);
            }
        }
    }

    /// Keeps these copies of the space, and no others of it.
    pub fn keep(&self, space: u64, copies: impl IntoIterator<Item = (Vpn, Copied)>) {
        let mut kept = self.kept();
        kept.retain(|&(of, _), _| of != space);
        kept.extend(copies.into_iter().map(|(page, copy)| ((space, page), copy)));
    }

    /// The copies of the space that no flush has named since they were kept.
    pub fn of(&self, space: u64) -> Vec<(Vpn, Copied)> {
        let kept = self.kept();
        let own = kept.range((space, Vpn(0))..=(space, Vpn(u64::MAX)));
        own.map(|(&(_, page), &copy)| (page, copy)).collect()
    }

    /// Drops all.
    pub(super) fn clear(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<(u64, Vpn), Copied>> {
        self.0.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }
}
