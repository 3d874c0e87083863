//! The table that a CPU's last walk ended in: a walk to a neighbour of the page starts, and ends, there.
//!
//! Faults come in runs, and 512 neighbours share a table. So each CPU remembers where its last walk ended,
//! with the number of *cuts* that the tree had seen: who cuts a table out raises that number once no entry
//! leads to the table any more, and before it is retired.
//!
//! Why a remembered table is still a table when the number is unchanged: it was reached after the number was
//! read, so the cuts counted until then were not its own; its own raises the number before it is retired. Had
//! a grace period ended since, the raised number would be seen in this read section. So at worst the table
//! was cut out a moment ago, as with any walk, and its lock tells (protocol P5: *attached*).

use super::{PageTable, Spot, Table, walk};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CpuRef, ReadGuard};
use crate::units::{Level, Pfn, Vpn};
use core::fmt;

/// How often a tree of tables lost one.
pub struct Cuts<C: Cpu> {
    /// Not 0, and unlike every other tree's that is walked with the same [`RecentTable`]s.
    tree: u64,
    /// Written with the space's lock held alone. Release: who sees it walks to no table that was cut out
    /// before.
    count: AtomicU64<C>,
}

impl<C: Cpu> Cuts<C> {
    /// For a tree with this number.
    pub fn new(tree: u64) -> Self {
        Self { tree, count: AtomicU64::new(0) }
    }

    /// A table was cut out; it is not yet retired. The caller holds the space's lock alone.
    pub fn note(&self) {
        self.count.store(self.count.load(Relaxed) + 1, Release);
    }
}

/// Where one CPU's last walk ended, of all its walks to a lowest table. It lies in a slot of per-CPU data.
pub struct RecentTable<C: Cpu> {
    tree: AtomicU64<C>,
    cuts: AtomicU64<C>,
    /// Which part of the address space the table covers: the page's number without the bits that index the
    /// table.
    region: AtomicU64<C>,
    table: AtomicU64<C>,
}

impl<C: Cpu> RecentTable<C> {
    /// Nothing yet.
    pub const fn new() -> Self {
        let [tree, cuts, region, table] = [const { AtomicU64::new(0) }; 4];
        Self { tree, cuts, region, table }
    }
}

fn region(vpn: Vpn) -> u64 {
    vpn.0 >> Level::Pmd.entry_shift()
}

/// As [`walk`] down to level `Pte`, by way of the table in which this CPU's last walk ended. `part` says
/// where in the CPU's slot that is remembered.
#[inline(always)]
pub fn walk_again<'m, M: Machine, S>(
    tree: &'m PageTable<'m, M>,
    vpn: Vpn,
    reading: &ReadGuard<'_, M::Cpu>,
    mine: CpuRef<'_, S, M::Cpu>,
    part: fn(&S) -> &RecentTable<M::Cpu>,
) -> Spot<'m, M> {
    let (recent, cuts) = (part(&mine), &tree.cuts);
    let count = cuts.count.load(Acquire);
    let same = |word: &AtomicU64<M::Cpu>, value: u64| word.load(Relaxed) == value;
    if same(&recent.region, region(vpn)) && same(&recent.tree, cuts.tree) && same(&recent.cuts, count) {
        let table = Table::at(tree, Pfn(recent.table.load(Relaxed)), Level::Pte);
        let slot = Level::Pte.index(vpn);
        return Spot { table, slot, word: table.read(slot) };
    }
    let spot = walk(tree, vpn, Level::Pte, reading);
    if spot.table.level() == Level::Pte {
        recent.tree.store(cuts.tree, Relaxed);
        recent.cuts.store(count, Relaxed);
        recent.region.store(region(vpn), Relaxed);
        recent.table.store(spot.table.pfn().0, Relaxed);
    }
    spot
}

impl<C: Cpu> Default for RecentTable<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu> fmt::Debug for Cuts<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cuts of tree {}", self.count, self.tree)
    }
}

impl<C: Cpu> fmt::Debug for RecentTable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the table of region {:?} of tree {:?}", self.region, self.tree)
    }
}
