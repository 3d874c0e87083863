//! The walker: reads tables as hardware does, through the door.
//!
//! Each entry is read once. What is present but not yet marked accessed (or, for a store, dirty) is marked by
//! one compare-exchange of the word that was read; where that fails, the entry has changed and is read again.
//! Nothing is cached here: what the walker finds goes to the CPU's TLB.

use super::tlb::Translation;
use super::{Flavour, SoftMachine};
use interleaf::machine::{Cpu, Entry, Format, Leaf, Marker};
use interleaf::sync::atomic::{AtomicU64, Ordering::*};
use interleaf::units::{Access, Level, PageSize, Pfn, Rights, VirtAddr, Vpn};

/// Whether the upper bits of an address repeat the highest that counts.
#[inline]
pub fn is_canonical<F: Format>(addr: VirtAddr) -> bool {
    let unused = 64 - F::ADDRESS_BITS;
    ((addr.0 << unused) as i64 >> unused) as u64 == addr.0
}

/// Finds the page of `vpn`, from the table `from` of some level downwards, for an access by user code. `None`
/// is a page fault. `table` is called with each table on the way: the level of its entry, its frame, and what
/// its entry allows, where that is a leaf by table.
pub fn walk<C: Flavour, F: Format>(
    machine: &SoftMachine<C, F>,
    from: (Level, Pfn),
    vpn: Vpn,
    access: Access,
    mut table: impl FnMut(Level, Pfn, Option<Rights>),
) -> Option<Translation> {
    let (mut level, mut pfn) = from;
    loop {
        let word = entry(machine, pfn, level, vpn);
        match step::<C, F>(word, level, access) {
            Step::Fault => return None,
            Step::Down(next) => {
                table(level, next, None);
                (level, pfn) = (level.below()?, next);
            }
            Step::Found(leaf) if leaf.by_table() => {
                table(level, leaf.pfn, Some(leaf.rights));
                return walk_shared(machine, leaf.pfn, leaf.rights, vpn, access);
            }
            Step::Found(leaf) => {
                let size = level.leaf_size()?;
                let vpn = Vpn(vpn.0 & !(size.pages() - 1));
                return Some(Translation {
                    vpn,
                    size,
                    pfn: leaf.pfn,
                    rights: leaf.rights,
                    dirty: leaf.dirty,
                });
            }
        }
    }
}

/// The page of `vpn` in a table that a leaf by table points to, which allows `rights`: as a table whose
/// upper entry takes rights away.
#[cold]
pub fn walk_shared<C: Flavour, F: Format>(
    machine: &SoftMachine<C, F>,
    table: Pfn,
    rights: Rights,
    vpn: Vpn,
    access: Access,
) -> Option<Translation> {
    if !rights.contains(access.needs() | Rights::USER) {
        return None;
    }
    let Step::Found(leaf) = step::<C, F>(entry(machine, table, Level::Pte, vpn), Level::Pte, access) else {
        return None;
    };
    let rights = leaf.rights & rights;
    Some(Translation { vpn, size: PageSize::Base, pfn: leaf.pfn, rights, dirty: leaf.dirty })
}

/// The leaf of `vpn`, from the table `from` of some level downwards, or `None` where no entry is present.
/// Marks nothing.
#[inline]
pub fn leaf_at<C: Flavour, F: Format>(
    machine: &SoftMachine<C, F>,
    from: (Level, Pfn),
    vpn: Vpn,
) -> Option<Leaf> {
    let (mut level, mut pfn) = from;
    loop {
        let word = entry(machine, pfn, level, vpn);
        match F::decode(word.load(Acquire), level) {
            Entry::Table(next) => (level, pfn) = (level.below()?, next),
            Entry::Leaf(leaf) => return Some(leaf),
            Entry::Absent | Entry::Marker(_) => return None,
        }
    }
}

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// As [`leaf_at`](Self::leaf_at), from a root that the caller knows: how a walk looks that assumes that
    /// all tables stay, and has nothing that keeps them.
    #[inline]
    pub fn leaf_below(&self, root: Pfn, page: Vpn) -> Option<Leaf> {
        leaf_at(self, (F::ROOT, root), page)
    }
}

/// Exchanges the entry of `vpn` at the lowest level, absent for one of a kind that nothing knows or the other
/// way round. `false` where a table is missing or the entry is neither.
pub fn toggle_unknown<C: Flavour, F: Format>(machine: &SoftMachine<C, F>, root: Pfn, vpn: Vpn) -> bool {
    let (mut level, mut pfn) = (F::ROOT, root);
    let unknown = F::encode(Entry::Marker(Marker::UNKNOWN), Level::Pte);
    loop {
        let word = entry(machine, pfn, level, vpn);
        match (F::decode(word.load(Acquire), level), level.below()) {
            (Entry::Table(next), Some(below)) => (level, pfn) = (below, next),
            (Entry::Absent, None) => return word.compare_exchange(0, unknown, AcqRel, Relaxed).is_ok(),
            (Entry::Marker(Marker::UNKNOWN), None) => {
                return word.compare_exchange(unknown, 0, AcqRel, Relaxed).is_ok();
            }
            _ => return false,
        }
    }
}

/// The entry of `vpn` in a table.
#[inline]
fn entry<C: Flavour, F: Format>(
    machine: &SoftMachine<C, F>,
    table: Pfn,
    level: Level,
    vpn: Vpn,
) -> &AtomicU64<C> {
    let cell = &machine.table_page(table).words[level.index(vpn)];
    // SAFETY: the library and this walker reach entries only through the door's atomics.
    unsafe { AtomicU64::<C>::from_cell(cell) }
}

enum Step {
    Fault,
    Down(Pfn),
    Found(Leaf),
}

/// Reads one entry, and marks it as used where it is a page that allows the access.
fn step<C: Cpu, F: Format>(word: &AtomicU64<C>, level: Level, access: Access) -> Step {
    // Acquire: pairs with the release that installed the entry, so that the frame's contents are seen.
    // Hardware orders a walk before the access that needed it.
    let mut old = word.load(Acquire);
    loop {
        let leaf = match F::decode(old, level) {
            Entry::Absent | Entry::Marker(_) => return Step::Fault,
            Entry::Table(next) => return Step::Down(next),
            Entry::Leaf(leaf) => leaf,
        };
        if !leaf.rights.contains(access.needs() | Rights::USER) {
            return Step::Fault;
        }
        let store = access == Access::Write;
        let used = F::used(old, store);
        if used == old {
            return Step::Found(leaf);
        }
        match word.compare_exchange(old, used, AcqRel, Acquire) {
            Ok(_) => return Step::Found(leaf.used(leaf.dirty || store)),
            Err(now) => old = now,
        }
    }
}
