//! The numbers of nodes.

use super::*;
use crate::machine::testing::TestMachine;
use crate::space::Vm;
use crate::space::tests::world::boot_map;

/// Numbers repeat after 2^32 nodes, which a system that forks for days has made.
#[test]
fn a_number_that_a_node_has_is_not_given_to_another() {
    let machine = TestMachine::new(512);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (memory, rcu) = (&vm.memory, &vm.rcu);
    let nodes = AnonNodes::new(memory, rcu).unwrap();
    let new = |space| nodes.create(memory, rcu, SpaceId(space), None).map(|id| id.0.get());
    assert_eq!([1, 2, 3].map(new), [Some(1), Some(2), Some(3)]);
    nodes.free(memory, rcu, AnonNodeId(NonZeroU32::new(2).unwrap()));
    nodes.numbers.last.store(u32::MAX - 1, Relaxed);
    assert_eq!([4, 5, 6].map(new), [Some(u32::MAX), Some(2), Some(4)]);
}
