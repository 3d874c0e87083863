use super::*;
use interleaf::frame::BootMap;

#[test]
fn every_world_is_a_map_that_the_library_takes() {
    for seed in 0..200 {
        for nodes in [1, 2, 3, 8] {
            let map = MemoryMap { frames: 1 << 18, nodes, holes: Holes::Drawn(seed) };
            let regions = map.regions();
            assert!(regions.len() > nodes as usize, "seed {seed} drew no hole");
            BootMap::new(&regions).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(regions.iter().map(|r| r.node.0).max(), Some(nodes - 1));
        }
    }
}

#[test]
fn without_holes_a_node_is_one_region() {
    let map = MemoryMap { frames: 100_000, nodes: 4, holes: Holes::None };
    let regions = map.regions();
    assert_eq!(regions.len(), 4);
    assert_eq!(regions.iter().map(|r| r.frames().len()).sum::<u64>(), 100_000);
}
