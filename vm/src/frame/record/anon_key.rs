//! The anon key of a frame: the space and the page that mapped it first, where a walk of the reverse map
//! begins.
//!
//! | bytes of the record | bits | meaning |
//! |---|---|---|
//! | 16..24 | 0..32 | number of the node: of the space, or of an ancestor that stands for it |
//! | | 32..64 | zero |
//! | 24..32 | 63 | *valid*: the other bits are a page |
//! | | 0..63 | *valid*: the page; else a link of the gather that has the frame, or zero |
//!
//! A link is the number of a frame plus one, of at most 41 bits, so it clears the *valid* bit.

use super::FrameMeta;
use crate::frame::MAX_PHYS_BITS;
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::{PAGE_SHIFT, Vpn};
use core::num::NonZeroU32;

/// The number of a space's node in the tree of the spaces that forks made of one. No two nodes have it at the
/// same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnonNodeId(pub NonZeroU32);

/// Where a walk to the entries of a frame of anonymous memory begins. (Linux: `page->mapping`,
/// `page->index`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnonKey {
    /// The node that names the space, or an ancestor of it.
    pub node: AnonNodeId,
    /// The page that mapped it first.
    pub page: Vpn,
}

/// Of the second word: it holds a page.
const VALID: u64 = 1 << 63;

const _: () = assert!(MAX_PHYS_BITS - PAGE_SHIFT < 63, "links leave the bit clear");

impl AnonKey {
    /// The two words.
    #[inline(always)]
    pub(super) fn encode(self) -> [u64; 2] {
        [u64::from(self.node.0.get()), self.page.0 | VALID]
    }

    /// What two words say; `None` where they hold no page.
    pub(super) fn decode([node, page]: [u64; 2]) -> Option<Self> {
        let node = AnonNodeId(NonZeroU32::new(node as u32)?);
        (page & VALID != 0 || mutant!("rmap.link-taken-for-page"))
            .then_some(Self { node, page: Vpn(page & !VALID) })
    }
}

impl<C: Cpu> FrameMeta<C> {
    /// The anon key of user memory. `None` where no page of a space's was noted, or the frame waits in a
    /// gather. A hint for a walk to its entries: stale at once, unless the caller has a reference to the
    /// frame, or it is mapped and its table locked.
    ///
    /// Relaxed: a reference was taken by a read-modify-write that acquires what was stored before the frame
    /// became user memory.
    pub fn anon_key(&self) -> Option<AnonKey> {
        AnonKey::decode([self.link[0].load(Relaxed), self.link[1].load(Relaxed)])
    }

    /// Notes the anon key of user memory, which only the caller owns yet.
    #[inline(always)]
    pub(super) fn set_anon_key(&self, key: Option<AnonKey>) {
        match key {
            Some(key) => {
                let [node, page] = key.encode();
                self.link[0].store(node, Relaxed);
                self.link[1].store(page, Relaxed);
            }
            None => self.link[1].store(0, Relaxed),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/anon_key.rs"]
mod tests;
