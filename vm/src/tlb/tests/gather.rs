//! When an edit flushes: because it took something away, or because another edit is not flushed yet.

use crate::frame::{BootMap, Init, Memory, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::tlb::{Gather, Shootdown, SpaceTlb};
use crate::units::{NodeId, PAGE_SIZE, Vpn, VpnRange};

const RANGE: VpnRange = VpnRange::new(Vpn(7), Vpn(9));

/// Flushes of an edit that finds nothing to take away, while `nr_pending` other edits wait for their flush.
fn flushes_beside(nr_pending: usize) -> u64 {
    let machine = TestMachine::new(64);
    let frames = machine.frames();
    let all = Region {
        start: frames.start.addr(),
        len_bytes: frames.len() * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let memory = Memory::new(&machine, BootMap::new(&[all]).unwrap()).unwrap();
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let shootdown = Shootdown::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let space = SpaceTlb::new(1);
    let pending: std::vec::Vec<_> = (0..nr_pending).map(|_| space.begin_edit()).collect();
    let own = space.begin_edit();
    let flushes = Gather::during(&memory, &rcu, &shootdown, &own, RANGE, |_| ());
    drop((own, pending));
    assert!(!space.is_flush_pending());
    flushes
}

#[test]
fn an_edit_that_finds_nothing_flushes_nothing() {
    assert_eq!(flushes_beside(0), 0);
}

#[test]
fn an_edit_that_finds_nothing_flushes_its_range_while_another_edit_waits_for_its_flush() {
    assert_eq!(flushes_beside(1), 1);
    assert_eq!(flushes_beside(2), 1);
}

#[test]
fn one_edit_of_a_space_at_a_time_leaves_frames_in_their_slots() {
    let [space, other] = [1, 2].map(SpaceTlb::<TestCpu>::new);
    let first = space.try_defer();
    // A refusal takes nothing from the edit that has it.
    assert!(first.is_some() && (0..3).all(|_| space.try_defer().is_none()));
    assert!(other.try_defer().is_some());
    drop(first);
    assert!(space.try_defer().is_some());
}
