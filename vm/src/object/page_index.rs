//! A tree of words: page of the object to frame.
//!
//! ```text
//!   root word:  node << 8 | height          height 0: 512 pages, 1: 512 * 512, ...
//!   node:       512 words: a child's frame number + 1, at height 0 the page's frame number + 1; 0 is nothing
//! ```
//!
//! Readers follow it under RCU without a lock. It only grows, under the object's lock, until the object dies:
//! a taller root is published with the old one as its first child.

use crate::frame::{Memory, Priority};
use crate::machine::Machine;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Level, Pfn};

/// The index of one object, by its root word.
pub struct PageIndex<'a, 'm, M: Machine> {
    pub memory: &'a Memory<'m, M>,
    pub root: &'a AtomicU64<M::Cpu>,
}

/// log2 of the words in a node.
const SHIFT: u32 = 9;
/// Heights 0 to 4 cover 2^45 pages.
const MAX_HEIGHT: u32 = 4;

fn slot(page: u64, height: u32) -> usize {
    (page >> (SHIFT * height)) as usize & (Level::ENTRIES - 1)
}

fn reaches(page: u64, height: u32) -> bool {
    page >> (SHIFT * (height + 1)) == 0
}

impl<'a, M: Machine> PageIndex<'a, '_, M> {
    /// Node and height of the root; `None` while the index is empty.
    fn root(&self) -> Option<(Pfn, u32)> {
        // Acquire pairs with the publication of the root in `grow`.
        let word = self.root.load(Acquire);
        (word != 0).then_some((Pfn(word >> 8), word as u32 & 0xff))
    }

    fn child(&self, node: Pfn, slot: usize) -> Option<Pfn> {
        // Acquire pairs with the releasing stores in `place` and of `Object::fill`.
        self.memory.word(node, slot).load(Acquire).checked_sub(1).map(Pfn)
    }

    /// The frame of a page.
    #[inline]
    pub fn lookup(&self, page: u64) -> Option<Pfn> {
        let (mut node, height) = self.root()?;
        if !reaches(page, height) {
            return None;
        }
        for height in (1..=height).rev() {
            node = self.child(node, slot(page, height))?;
        }
        self.child(node, slot(page, 0))
    }

    /// The word for a page; adds missing nodes on its path. The object's lock is held. `None` if there is no
    /// memory for a node; nodes already added stay, empty.
    pub fn place(&self, page: u64) -> Option<&'a AtomicU64<M::Cpu>> {
        let (mut node, height) = self.grow(page)?;
        for height in (1..=height).rev() {
            let slot = slot(page, height);
            node = match self.child(node, slot) {
                Some(child) => child,
                None => {
                    let child = self.memory.alloc_table(Priority::NoWait)?.attach(self.memory);
                    self.memory.word(node, slot).store(child.0 + 1, Release);
                    child
                }
            };
        }
        Some(self.memory.word(node, slot(page, 0)))
    }

    /// Makes the tree tall enough for `page`.
    fn grow(&self, page: u64) -> Option<(Pfn, u32)> {
        loop {
            let (node, height) = match self.root() {
                Some((node, height)) if reaches(page, height) => return Some((node, height)),
                Some((_, MAX_HEIGHT)) => return None,
                Some((old, height)) => {
                    let taller = self.memory.alloc_table(Priority::NoWait)?.attach(self.memory);
                    self.memory.word(taller, 0).store(old.0 + 1, Relaxed);
                    (taller, height + 1)
                }
                None => (self.memory.alloc_table(Priority::NoWait)?.attach(self.memory), 0),
            };
            self.root.store(node.0 << 8 | u64::from(height), Release);
        }
    }

    /// Visits every node, children before their parent, and every frame. The object is dead.
    pub fn dismantle(&self, frame: &mut impl FnMut(Pfn), node: &mut impl FnMut(Pfn)) {
        if let Some((root, height)) = self.root() {
            self.dismantle_node(root, height, frame, node);
        }
    }

    fn dismantle_node(&self, at: Pfn, height: u32, frame: &mut impl FnMut(Pfn), node: &mut impl FnMut(Pfn)) {
        for slot in 0..Level::ENTRIES {
            match self.child(at, slot) {
                Some(child) if height > 0 => self.dismantle_node(child, height - 1, frame, node),
                Some(child) => frame(child),
                None => {}
            }
        }
        node(at);
    }
}
