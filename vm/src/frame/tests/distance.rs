//! The distance list.

use super::*;

#[test]
fn near_zones_come_first_and_equally_far_ones_in_turn() {
    let far = [10, 20, 20, 30];
    let mut row = [0; 4];
    sort_by_distance(0, &mut row, |zone| far[zone]);
    assert_eq!(row, [0, 1, 2, 3]);
    sort_by_distance(2, &mut row, |zone| [20, 20, 10, 20][zone]);
    assert_eq!(row, [2, 3, 0, 1]);
    // Firmware may say that another node is as near as the own one, or nearer.
    sort_by_distance(1, &mut row, |zone| [5, 10, 10, 10][zone]);
    assert_eq!(row, [1, 0, 2, 3]);
}

#[test]
fn the_local_zone_of_a_cpu_whose_node_has_no_memory_is_the_nearest() {
    let nodes = [NodeId(0), NodeId(3), NodeId(7)];
    let far = |from: NodeId, to: NodeId| from.0.abs_diff(to.0);
    assert_eq!([0, 3, 5, 6, 9].map(|node| nearest_zone(&nodes, NodeId(node), far)), [0, 1, 1, 2, 2]);
    assert_eq!(nearest_zone(&nodes, NodeId(7), |_, _| 10), 2);
}
