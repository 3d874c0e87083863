//! The index of mappings, with records and nodes in pools of frames, compared with a list.

use crate::frame::{BootMap, IndexAllocator, IndexPools, Init, Memory, Region, RegionKind};
use crate::index::NoMemory;
use crate::machine::Machine;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::units::{NodeId, PAGE_SIZE, Vpn, VpnRange};
use crate::vma::{
    Areas, GUARD_PAGES, Gaps, TreeGaps, Vma, VmaAttributes, VmaFlags, VmaState, VmaTree, place,
};
use std::vec::Vec;

pub type Pools<'m> = IndexPools<'m, Vma<TestCpu>, TestMachine>;
pub type Store<'a, 'm> = IndexAllocator<'a, 'm, Vma<TestCpu>, TestMachine>;

pub fn memory(machine: &TestMachine) -> Memory<'_, TestMachine> {
    let frames = machine.frames();
    let region = Region {
        start: frames.start.addr(),
        len_bytes: frames.len() * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    Memory::new(machine, BootMap::new(&[region]).unwrap()).unwrap()
}

fn pages(start: u64, end: u64) -> VpnRange {
    VpnRange::new(Vpn(start), Vpn(end))
}

const ALL: VpnRange = VpnRange { start: Vpn(0), end: Vpn(1 << 35) };

fn attributes(start: u64, end: u64) -> VmaAttributes {
    VmaAttributes::anonymous(pages(start, end), VmaFlags::READ | VmaFlags::MAY_ACCESS)
}

fn listed(tree: &VmaTree<'_, TestCpu>, rcu: &Rcu<TestCpu>) -> Vec<VmaAttributes> {
    let section = rcu.read();
    tree.iter(&section, ALL).map(|vma| vma.attributes()).collect()
}

fn put(tree: &VmaTree<'_, TestCpu>, store: &Store<'_, '_>, old: VpnRange, new: &[VmaAttributes]) {
    let new = new.iter().map(|&attributes| Vma::new(attributes, VmaState::Live));
    tree.prepare(old, new, store).unwrap().publish();
}

/// The records of a decision.
pub fn records(new: &[Option<(VmaAttributes, VmaState)>]) -> impl Iterator<Item = Vma<TestCpu>> {
    new.iter().flatten().map(|&(attributes, state)| Vma::new(attributes, state))
}

/// Runs a test with an index and its memory, and checks that all memory is freed at the end.
fn with_store(
    test: impl FnOnce(&VmaTree<'_, TestCpu>, &Rcu<TestCpu>, &Memory<'_, TestMachine>, &Store<'_, '_>),
) {
    let machine = TestMachine::with_cpus(2048, 1);
    let (memory, rcu) = (memory(&machine), Rcu::carve(&mut Heap, machine.nr_cpus()).unwrap());
    let pools = Pools::new(&memory, &rcu).unwrap();
    let store = pools.allocator(&memory, &rcu);
    let tree = VmaTree::new(&store);
    test(&tree, &rcu, &memory, &store);
    put(&tree, &store, ALL, &[]);
    rcu.wait(&machine, &memory);
    pools.shrink(&memory);
    assert_eq!((tree.len(), pools.frames()), (0, 0), "all records and nodes are freed");
    memory.check().unwrap();
}

#[test]
fn a_record_takes_one_line() {
    let machine = TestMachine::with_cpus(256, 1);
    let (memory, rcu) = (memory(&machine), Rcu::carve(&mut Heap, 1).unwrap());
    assert_eq!(Pools::new(&memory, &rcu).unwrap().object_bytes().1, 64);
}

#[test]
fn thousands_of_mappings_are_found_replaced_and_freed() {
    with_store(|tree, rcu, _, store| {
        for at in 0..4000 {
            put(tree, store, VpnRange::default(), &[attributes(16 * at, 16 * at + 8)]);
        }
        assert_eq!((tree.len(), tree.check(&rcu.read()).unwrap().items), (4000, 4000));
        {
            let section = rcu.read();
            assert_eq!(
                tree.find(&section, Vpn(16 * 77 + 7)).unwrap().attributes(),
                attributes(16 * 77, 16 * 77 + 8)
            );
            assert!(tree.find(&section, Vpn(16 * 77 + 8)).is_none());
            assert_eq!(tree.at_or_after(&section, Vpn(16 * 77 + 8)).unwrap().range().start, Vpn(16 * 78));
            assert_eq!(tree.before(&section, Vpn(16 * 77)).unwrap().range().start, Vpn(16 * 76));
            assert_eq!(TreeGaps(tree, &section).lowest(8, pages(8, 16)), Some(Vpn(8)));
            assert_eq!(
                (TreeGaps(tree, &section).lowest(9, pages(8, 17)), tree.iter(&section, pages(8, 17)).count()),
                (None, 1)
            );
        }
        // A hole is cut into the middle: the two mappings at its ends are shortened.
        put(
            tree,
            store,
            pages(16 * 10 + 4, 16 * 3000 + 4),
            &[attributes(16 * 10, 16 * 10 + 4), attributes(16 * 3000 + 4, 16 * 3000 + 8)],
        );
        assert_eq!(tree.len(), 4000 - 2991 + 2);
        let list = listed(tree, rcu);
        assert_eq!(list.len(), tree.len());
        assert_eq!(
            list[10..12],
            [attributes(16 * 10, 16 * 10 + 4), attributes(16 * 3000 + 4, 16 * 3000 + 8)]
        );
        assert_eq!(crate::vma::check(list), Ok(()));
    });
}

#[test]
fn a_stale_record_stays_readable_for_a_reader_that_found_it() {
    with_store(|tree, rcu, _, store| {
        put(tree, store, VpnRange::default(), &[attributes(10, 20)]);
        let section = rcu.read();
        let found = tree.find(&section, Vpn(15)).unwrap();
        let prepared =
            tree.prepare(pages(10, 20), [Vma::new(attributes(10, 15), VmaState::Busy)], store).unwrap();
        assert!(found.is_live(), "nothing has happened yet");
        found.mark_stale();
        drop(section);
        prepared.publish();
        let section = rcu.read();
        assert_eq!(tree.find(&section, Vpn(12)).unwrap().state(), VmaState::Busy);
        assert!(tree.find(&section, Vpn(15)).is_none());
    });
}

#[test]
fn a_refused_replacement_changes_nothing() {
    with_store(|tree, rcu, memory, store| {
        put(tree, store, VpnRange::default(), &[attributes(10, 20), attributes(30, 40)]);
        let before = listed(tree, rcu);
        let new = [Some((attributes(10, 12), VmaState::Live)), Some((attributes(18, 20), VmaState::Live))];
        let mut refused = 0;
        for nth in 1.. {
            memory.plan_mishap(nth);
            let prepared = tree.prepare(pages(10, 20), records(&new), store);
            memory.plan_mishap(0);
            match prepared {
                Ok(_) => break,
                Err(NoMemory) => refused += 1,
            }
            assert_eq!(listed(tree, rcu), before);
        }
        assert_eq!((refused, tree.len()), (3, 2), "two records and a node were allocated");
        assert_eq!(listed(tree, rcu), before, "dropped, it changes nothing");
    });
}

#[test]
fn addresses_are_chosen_in_the_index_as_in_a_list() {
    with_store(|tree, rcu, _, store| {
        let user = pages(16, 1 << 20);
        let areas = Areas { user, mmap_base: Vpn(1 << 19), legacy_base: Vpn(1 << 18) };
        let at = |nr_pages| place(&TreeGaps(tree, &rcu.read()), &areas.anywhere(None, nr_pages));
        assert_eq!(at(4), Some(Vpn((1 << 19) - 4)));
        let stack = attributes((1 << 19) - 10, 1 << 19);
        put(tree, store, VpnRange::default(), &[stack.with_flags(stack.flags | VmaFlags::GROWS_DOWN)]);
        assert_eq!(at(4), Some(Vpn((1 << 19) - 10 - GUARD_PAGES - 4)));
        put(tree, store, VpnRange::default(), &[attributes(16, 100), attributes(104, (1 << 19) - 300)]);
        assert_eq!(at(4), Some(Vpn((1 << 19) - 10 - GUARD_PAGES - 4)));
        assert_eq!(
            at(40),
            Some(Vpn(1 << 19)),
            "no gap below mmap_base: upwards from legacy_base, which is mapped"
        );
        assert_eq!(at(1 << 20), None);
        assert_eq!(place(&TreeGaps(tree, &rcu.read()), &areas.anywhere(Some(Vpn(100)), 4)), Some(Vpn(100)));
        let in_guard = areas.anywhere(Some(Vpn((1 << 19) - 10 - GUARD_PAGES - 3)), 4);
        assert_eq!(
            place(&TreeGaps(tree, &rcu.read()), &in_guard),
            at(4),
            "a hint that overlaps the stack's guard gap is not granted"
        );
    });
}
