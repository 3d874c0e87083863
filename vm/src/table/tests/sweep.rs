//! How a range is cut into the parts that entries cover; and read sections of walks.

use super::platform::with_tree;
use crate::sync::Rcu;
use crate::table::sweep::part_of_entry;
use crate::table::walk;
use crate::units::{Level, Vpn, VpnRange};

#[test]
fn parts_end_where_their_entry_ends() {
    let range = |a, b| VpnRange::new(Vpn(a), Vpn(b));
    assert_eq!(part_of_entry(Level::Pmd, Vpn(5), Vpn(10_000)), range(5, 512));
    assert_eq!(part_of_entry(Level::Pmd, Vpn(512), Vpn(600)), range(512, 600));
}

#[test]
#[should_panic = "a read section of another RCU"]
fn a_walk_in_a_section_of_another_rcu_is_refused() {
    with_tree(|tree, memory, _| {
        let other = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
        let reading = other.read();
        let found = walk(tree, Vpn(1), Level::Pte, &reading);
        panic!("walked to {:#x}", found.word);
    });
}
