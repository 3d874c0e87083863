//! The numbers of nodes.

use super::*;
use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::TestMachine;
use crate::units::{NodeId, PAGE_SIZE};

/// Numbers repeat after 2^32 nodes, which a system that forks for days has made.
#[test]
fn a_number_that_a_node_has_is_not_given_to_another() {
    let machine = TestMachine::new(512);
    let (start, len_bytes) = (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Zeroed), node: NodeId(0) };
    let memory = Memory::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let nodes = AnonNodes::new(&memory, &rcu).unwrap();
    let new = |space| nodes.create(&memory, &rcu, SpaceId(space), None).map(|id| id.0.get());
    assert_eq!([1, 2, 3].map(new), [Some(1), Some(2), Some(3)]);
    nodes.free(&memory, &rcu, AnonNodeId(NonZeroU32::new(2).unwrap()));
    nodes.numbers.last.store(u32::MAX - 1, Relaxed);
    assert_eq!([4, 5, 6].map(new), [Some(u32::MAX), Some(2), Some(4)]);
}
