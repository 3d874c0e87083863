//! The MMU of a test CPU: a cache of translations and a walker, the least that shows a stale translation.

use super::{TestCpu, TestMachine};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Access, Level, Pfn, Rights, Vpn, VpnRange};
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

impl<F: Format> TestMachine<F> {
    /// Writes an entry into a table that is not the library's, as a kernel with tables of its own would.
    pub fn set_entry(&self, table: Pfn, level: Level, page: Vpn, entry: Entry) {
        self.word(table, level.index(page)).store(F::encode(entry, level), Release);
    }

    /// The leaf that the tables hold, read as a walker does, and the pages that it maps.
    pub(super) fn walk(&self, root: Pfn, page: Vpn) -> Option<(VpnRange, Leaf)> {
        let (mut table, mut level) = (root, F::ROOT);
        loop {
            match F::decode(self.word(table, level.index(page)).load(Acquire), level) {
                Entry::Table(below) if level != Level::Pte => (table, level) = (below, level.below()?),
                Entry::Leaf(leaf) if leaf.by_table() => {
                    let below = self.word(leaf.pfn, Level::Pte.index(page)).load(Acquire);
                    let Entry::Leaf(below) = F::decode(below, Level::Pte) else { return None };
                    let rights = below.rights & leaf.rights;
                    return Some((VpnRange::new(page, page.add(1)), Leaf { rights, ..below }));
                }
                Entry::Leaf(leaf) => {
                    let start = Vpn(page.0 & !(level.entry_pages() - 1));
                    return Some((VpnRange::new(start, start.add(level.entry_pages())), leaf));
                }
                _ => return None,
            }
        }
    }

    fn word(&self, table: Pfn, slot: usize) -> &AtomicU64<TestCpu> {
        // SAFETY: tables are reached as words only, by the library through its door, by this, and by the
        // walker below.
        unsafe { AtomicU64::from_cell(&self.table(table).words[slot]) }
    }
}

/// One CPU's root, and the translations that it has cached until they are flushed.
#[derive(Debug)]
pub(super) struct Mmu {
    /// The host's lock, which is no step of a model; never held across one.
    state: Mutex<State>,
    /// Written with each change and read by checkers, so that a model knows of the order between them.
    changes: AtomicU64<TestCpu>,
}

#[derive(Debug, Default)]
struct State {
    root: Option<Pfn>,
    cached: Vec<Cached>,
}

/// A translation that is cached, for one page: one of a large leaf is a part of it, and goes with it.
#[derive(Clone, Copy, Debug)]
struct Cached {
    page: Vpn,
    /// The pages of its leaf.
    pages: VpnRange,
    leaf: Leaf,
}

impl Cached {
    /// Whether a flush of the range drops it.
    fn is_in(&self, range: VpnRange) -> bool {
        self.pages.overlaps(range)
    }
}

impl Mmu {
    /// An MMU without a root.
    pub fn new() -> Self {
        Self { state: Mutex::default(), changes: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Translates through `root` from now on. What is cached stays until it is flushed.
    pub fn load(&self, root: Option<Pfn>) {
        self.state().root = root;
    }

    /// The root that it translates through.
    pub fn root(&self) -> Option<Pfn> {
        self.state().root
    }

    /// Drops the translations of the range.
    pub fn flush(&self, range: VpnRange) {
        let is_known = self.state().cached.iter().any(|cached| cached.is_in(range));
        if is_known {
            self.changes.store(0, Release);
            self.state().cached.retain(|cached| !cached.is_in(range));
        }
    }

    /// The translation of the page that is cached, for checkers.
    pub fn cached(&self, page: Vpn) -> Option<Leaf> {
        // A read-modify-write reads the last change, and acquires: a checker that sees what the CPU has
        // cached sees the entry from which it did.
        let _order = self.changes.fetch_add(0, Acquire);
        self.state().cached.iter().find(|cached| cached.page == page).map(|cached| cached.leaf)
    }

    /// A translation that allows the access: a cached one, or the result of a walk, which is cached then. A
    /// refused access drops the page, like hardware that faults; or, where the format says so, it is answered
    /// from what is cached, and one that the walk finds refused is cached too, also where it finds nothing,
    /// as a RISC-V hart without Svvptc may. Accessed and dirty bits are not set: entries made by faults have
    /// them.
    pub fn translate<F: Format>(&self, machine: &TestMachine<F>, page: Vpn, access: Access) -> Option<Leaf> {
        let allows = |leaf: &Leaf| leaf.rights.contains(access.needs());
        let known = self.state().cached.iter().find(|cached| cached.page == page).copied();
        if let Some(Cached { leaf, .. }) = known.filter(|known| allows(&known.leaf) || F::REMEMBERS_REFUSALS)
        {
            return Some(leaf).filter(allows);
        }
        self.flush(VpnRange::new(page, page.add(1)));
        let root = self.state().root?;
        let nothing = (VpnRange::new(page, page.add(1)), Leaf::new(Pfn(0), Rights::empty()));
        let found = machine.walk(root, page).or(Some(nothing));
        let (pages, leaf) = found.filter(|(_, leaf)| allows(leaf) || F::REMEMBERS_REFUSALS)?;
        self.changes.store(0, Release);
        self.state().cached.push(Cached { page, pages, leaf });
        Some(leaf).filter(allows)
    }
}
