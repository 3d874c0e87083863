use super::memory::*;
use crate::index::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::units::Vpn;
use crate::units::VpnRange;
use core::sync::atomic::Ordering::*;
use std::collections::BTreeMap;
use std::thread;
use std::vec::Vec;

type Tree<'m, const F: usize> = RangeIndex<'m, TestItem, TestCpu, F>;

/// A small generator: the tests choose their own seeds.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The obvious index: end by start.
type Model = BTreeMap<u64, u64>;

fn model_find(model: &Model, vpn: u64) -> Option<(u64, u64)> {
    model.range(..=vpn).next_back().map(|(&s, &e)| (s, e)).filter(|&(_, end)| vpn < end)
}

/// The holes of the model within a range, ascending.
fn model_gaps(model: &Model, within: VpnRange) -> Vec<(u64, u64)> {
    let mut start = 0;
    let mut holes = Vec::new();
    for (&s, &e) in model.iter().chain([(&u64::MAX, &u64::MAX)]) {
        let hole = pages(start.max(within.start.0), s.min(within.end.0));
        if start.max(within.start.0) < s.min(within.end.0) {
            holes.push((hole.start.0, hole.end.0));
        }
        start = e;
    }
    holes
}

struct World<const F: usize> {
    tree: Tree<'static, F>,
    nodes: HeapMemory<'static>,
    model: Model,
    rcu: Rcu<'static, TestCpu>,
    random: Random,
}

const SPACE: u64 = 400;

impl<const F: usize> World<F> {
    fn new(seed: u64) -> Self {
        let rcu = Rcu::carve(&mut Heap, 1).unwrap();
        let model = Model::new();
        let nodes = HeapMemory::at_once(&rcu);
        Self { tree: RangeIndex::new(&nodes), nodes, model, rcu, random: Random(seed) }
    }

    /// A replacement that cuts items at the borders of `old`, as unmapping does.
    fn change(&mut self) -> (VpnRange, Vec<(u64, u64)>) {
        let start = self.random.below(SPACE);
        let len = 1 + if self.random.below(8) == 0 { self.random.below(SPACE) } else { self.random.below(9) };
        let (start, end) = (start, (start + len).min(SPACE));
        let mut new = Vec::new();
        if let Some((s, _)) = model_find(&self.model, start).filter(|&(s, _)| s < start) {
            new.push((s, start));
        }
        let mut at = start;
        while at < end && self.random.below(3) > 0 {
            let len = 1 + self.random.below(5);
            let stop = (at + len).min(end);
            new.push((at, stop));
            at = stop + self.random.below(3);
        }
        if let Some((_, e)) = model_find(&self.model, end - 1).filter(|&(_, e)| e > end) {
            new.push((end, e));
        }
        (pages(start, end), new)
    }

    fn apply_to_model(&mut self, old: VpnRange, new: &[(u64, u64)]) {
        self.model.retain(|&s, &mut e| !pages(s, e).overlaps(old));
        self.model.extend(new.iter().copied());
    }

    fn items_of(model: &Model) -> Vec<(u64, u64)> {
        model.iter().map(|(&s, &e)| (s, e)).collect()
    }

    fn assert_same(&self) {
        let census = self.tree.check(&self.rcu.read()).unwrap();
        assert_eq!(census.items, self.model.len());
        assert_eq!(census.nodes, self.nodes.nodes.get(), "a node leaked");
        assert_eq!(ranges(&self.tree, &self.rcu.read()), Self::items_of(&self.model));
    }

    fn assert_lookups(&self) {
        let section = self.rcu.read();
        let range = |item: &TestItem| (item.range.start.0, item.range.end.0);
        for vpn in 0..SPACE + 3 {
            let found = self.tree.find(&section, Vpn(vpn)).map(range);
            assert_eq!(found, model_find(&self.model, vpn), "find {vpn}");
            let next = self.tree.at_or_after(&section, Vpn(vpn)).map(range);
            let after = || self.model.range(vpn..).next().map(|(&s, &e)| (s, e));
            assert_eq!(next, model_find(&self.model, vpn).or_else(after), "next {vpn}");
            let prev = self.tree.before(&section, Vpn(vpn)).map(range);
            assert_eq!(prev, self.model.range(..vpn).next_back().map(|(&s, &e)| (s, e)), "prev {vpn}");
        }
    }

    fn assert_gaps(&mut self) {
        let section = self.rcu.read();
        for _ in 0..20 {
            let (a, b) = (self.random.below(SPACE + 50), self.random.below(SPACE + 50));
            let (within, len) = (pages(a.min(b), a.max(b)), 1 + self.random.below(20));
            let align = 1 << self.random.below(4);
            let holes = model_gaps(&self.model, within);
            let (lowest, highest) =
                (expected_lowest(&holes, len, align), expected_highest(&holes, len, align));
            assert_eq!(
                self.tree.lowest_gap(&section, within, len, align).map(|v| v.0),
                lowest,
                "{within:?} {len} {align}"
            );
            assert_eq!(
                self.tree.highest_gap(&section, within, len, align).map(|v| v.0),
                highest,
                "{within:?} {len} {align}"
            );
        }
    }
}

/// First the holes that are long enough at any position, then those long enough with their alignment.
fn long_enough(holes: &[(u64, u64)], len: u64, align: u64) -> impl Iterator<Item = &(u64, u64)> + Clone {
    let sure = holes.iter().any(|(start, end)| end - start >= len + align - 1);
    holes.iter().filter(move |(start, end)| end - start >= if sure { len + align - 1 } else { len })
}

fn expected_lowest(holes: &[(u64, u64)], len: u64, align: u64) -> Option<u64> {
    long_enough(holes, len, align)
        .find_map(|&(start, end)| Some(start.next_multiple_of(align)).filter(|at| at + len <= end))
}

fn expected_highest(holes: &[(u64, u64)], len: u64, align: u64) -> Option<u64> {
    let holes: Vec<_> = long_enough(holes, len, align).copied().collect();
    holes.iter().rev().find_map(|&(start, end)| Some((end - len) / align * align).filter(|&at| at >= start))
}

fn random_changes_match_the_model<const F: usize>(seeds: u64, steps: usize) {
    for seed in 1..=seeds {
        let mut world = World::<F>::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for step in 0..steps {
            let (old, new) = world.change();
            let items: Vec<_> = new.iter().map(|&(s, e)| item(s, e)).collect();
            // A mishap at every allocation that this replacement makes: nothing changes, nothing leaks.
            for left in 0.. {
                world.nodes.left.set(Some(left));
                // SAFETY: items of the test, in order, which are never freed; the memory is the tree's.
                let prepared = unsafe { world.tree.edit(old, &slots(&items), &world.nodes) };
                let done = prepared.is_ok();
                if step % 2 == 0 || !done {
                    drop(prepared);
                    world.assert_same();
                }
                if done {
                    break;
                }
            }
            world.nodes.left.set(None);
            replace(&world.tree, old, &items, &world.nodes);
            world.apply_to_model(old, &new);
            world.assert_same();
            world.assert_gaps();
            if step % 8 == 0 {
                world.assert_lookups();
            }
        }
        replace(&world.tree, pages(0, u64::MAX), &[], &world.nodes);
        assert!(world.tree.is_empty());
        assert_eq!(world.nodes.nodes.get(), 0);
    }
}

#[test]
fn random_changes_of_the_smallest_nodes_match_the_model() {
    random_changes_match_the_model::<4>(6, 120);
}

#[test]
fn random_changes_of_full_nodes_match_the_model() {
    random_changes_match_the_model::<16>(3, 120);
}

fn fill<const F: usize>(tree: &Tree<'_, F>, nodes: &HeapMemory<'_>, starts: impl Iterator<Item = u64>) {
    for start in starts {
        replace(tree, VpnRange::default(), &[item(start * 4, start * 4 + 3)], nodes);
    }
}

#[test]
fn a_common_replacement_copies_one_leaf() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let nodes = HeapMemory::at_once(&rcu);
    let tree = Tree::<16>::new(&nodes);
    fill(&tree, &nodes, 0..10_000);
    let before = nodes.nodes_allocated.get();
    for n in (0..10_000).step_by(7) {
        replace(&tree, pages(n * 4, n * 4 + 3), &[item(n * 4, n * 4 + 3)], &nodes);
    }
    assert_eq!(nodes.nodes_allocated.get() - before, 10_000usize.div_ceil(7));
}

#[test]
fn growth_from_either_end_and_removal_keep_the_tree_shallow() {
    for (up, down) in [(true, false), (false, true), (true, true)] {
        let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
        let nodes = HeapMemory::at_once(&rcu);
        let tree = Tree::<16>::new(&nodes);
        let n = 20_000u64;
        let order = (0..n).map(|at| {
            if up && down {
                at * 7919 % n
            } else if up {
                at
            } else {
                n - 1 - at
            }
        });
        fill(&tree, &nodes, order);
        let full = tree.check(&rcu.read()).unwrap();
        assert_eq!((full.items, full.nodes), (20_000, nodes.nodes.get()));
        // In order, nodes are left nearly full: 20 000 / 16 leaves.
        assert!(full.levels <= 4 && full.nodes <= if up && down { 2_500 } else { 1_700 }, "{full:?}");
        for at in (0..n).filter(|at| at % 100 != 0) {
            replace(&tree, pages(at * 4, at * 4 + 3), &[], &nodes);
        }
        let thin = tree.check(&rcu.read()).unwrap();
        assert_eq!(thin.items, 200);
        assert!(thin.levels <= 4 && thin.nodes <= 100, "{thin:?}");
    }
}

#[test]
fn one_replacement_of_everything_by_many_and_back() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let nodes = HeapMemory::at_once(&rcu);
    let tree = Tree::<4>::new(&nodes);
    let many: Vec<_> = (0..1_000).map(|n| item(n * 2, n * 2 + 1)).collect();
    replace(&tree, VpnRange::default(), &many, &nodes);
    assert_eq!(tree.check(&rcu.read()).unwrap().items, 1_000);
    replace(&tree, pages(0, 1_999), &[item(0, 2_000)], &nodes);
    assert_eq!(tree.check(&rcu.read()), Ok(IndexStats { items: 1, nodes: 1, levels: 1 }));
}

#[test]
fn an_item_may_grow_across_the_border_of_a_removed_neighbour() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let nodes = HeapMemory::at_once(&rcu);
    let tree = Tree::<4>::new(&nodes);
    let many: Vec<_> = (0..9).map(|n| item(n * 10, n * 10 + 5)).collect();
    replace(&tree, VpnRange::default(), &many, &nodes);
    for n in 1..9 {
        replace(&tree, pages(0, n * 10 + 5), &[item(0, n * 10 + 5)], &nodes);
        tree.check(&rcu.read()).unwrap();
    }
    assert_eq!(nodes.nodes.get(), 1);
}

#[test]
fn guard_pages_of_an_item_belong_to_no_gap() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let nodes = HeapMemory::at_once(&rcu);
    let tree = Tree::<4>::new(&nodes);
    replace(&tree, VpnRange::default(), &[item(0, 10), item_with_guard(30, 40, 8)], &nodes);
    let section = rcu.read();
    assert_eq!(tree.highest_gap(&section, pages(0, 40), 5, 1), Some(Vpn(17)));
    assert_eq!(tree.lowest_gap(&section, pages(0, 40), 12, 1), Some(Vpn(10)));
    assert_eq!(tree.lowest_gap(&section, pages(0, 40), 13, 1), None);
}

#[test]
fn the_lowest_and_the_highest_page_may_be_used() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let nodes = HeapMemory::at_once(&rcu);
    let tree = Tree::<4>::new(&nodes);
    replace(&tree, VpnRange::default(), &[item(0, 1), item(END.0 - 2, END.0)], &nodes);
    let section = rcu.read();
    assert!(tree.find(&section, Vpn(END.0 - 1)).is_some());
    for beyond in [END.0, 1 << 63, u64::MAX - 1, u64::MAX].map(Vpn) {
        assert!(tree.find(&section, beyond).is_none());
        assert!(tree.at_or_after(&section, beyond).is_none());
        assert_eq!(tree.before(&section, beyond).unwrap().range.end, END);
        assert!(tree.iter(&section, VpnRange::new(beyond, Vpn(u64::MAX))).next().is_none());
        let nothing = tree.prepare(VpnRange::new(beyond, Vpn(u64::MAX)), [], &nodes).unwrap();
        nothing.publish();
    }
    assert_eq!(tree.iter(&section, pages(0, END.0)).count(), 2);
    assert!(tree.before(&section, Vpn(0)).is_none());
    assert_eq!(tree.lowest_gap(&section, pages(0, u64::MAX), u64::MAX, 1), None);
    assert_eq!(tree.lowest_gap(&section, pages(0, u64::MAX), 0, 1), None);
    assert_eq!(tree.highest_gap(&section, pages(0, u64::MAX), 1, u64::MAX), None);
    assert_eq!(tree.highest_gap(&section, pages(0, u64::MAX), 1, 1), Some(Vpn(u64::MAX - 1)));
}

#[test]
#[should_panic = "two writers"]
fn a_second_writer_is_a_checked_error() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let nodes = HeapMemory::at_once(&rcu);
    let tree = Tree::<4>::new(&nodes);
    let _first = tree.prepare(VpnRange::default(), [value(1, 2)], &nodes);
    let _second = tree.prepare(VpnRange::default(), [value(3, 4)], &nodes);
}

#[test]
fn concurrent_lookups_always_find_pages_that_stay_mapped() {
    let machine = TestMachine::with_cpus(1, 3);
    let rcu = Rcu::carve(&mut Heap, 3).unwrap();
    let tree = Tree::<4>::new(&HeapMemory::at_once(&rcu));
    let stop = core::sync::atomic::AtomicBool::new(false);
    // Pages 8n..8n+4 are always mapped, alone or with their neighbours.
    replace(
        &tree,
        VpnRange::default(),
        &(0..64).map(|n| item(n * 8, n * 8 + 4)).collect::<Vec<_>>(),
        &HeapMemory::at_once(&rcu),
    );
    thread::scope(|scope| {
        for cpu in 1..3 {
            let (rcu, tree, stop) = (&rcu, &tree, &stop);
            scope.spawn(move || {
                TestCpu::become_cpu(cpu);
                let mut random = Random(u64::from(cpu) * 77);
                while !stop.load(Relaxed) {
                    let vpn = Vpn(random.below(64) * 8 + random.below(4));
                    let section = rcu.read();
                    assert!(tree.find(&section, vpn).is_some_and(|item| item.range.contains(vpn)));
                    assert!(tree.at_or_after(&section, vpn).is_some());
                    assert!(tree.before(&section, Vpn(vpn.0 + 1)).is_some());
                }
            });
        }
        let nodes = HeapMemory { nodes: core::cell::Cell::new(1_000), ..HeapMemory::with_rcu(&rcu) };
        let mut random = Random(5);
        for _ in 0..3_000 {
            let (from, to) = (random.below(64), random.below(64));
            let old = pages(from.min(to) * 8, from.max(to) * 8 + 4);
            // Join, then split again.
            replace(&tree, old, &[item(old.start.0, old.end.0)], &nodes);
            let parts = (from.min(to)..=from.max(to)).map(|n| item(n * 8, n * 8 + 4));
            replace(&tree, old, &parts.collect::<Vec<_>>(), &nodes);
            rcu.poll(&machine, &nodes);
        }
        stop.store(true, Relaxed);
        rcu.wait(&machine, &nodes);
    });
    assert_eq!(tree.check(&rcu.read()).unwrap().items, 64);
    assert_eq!(rcu.garbage(), 0);
}
