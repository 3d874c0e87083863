//! Which records lie on which node. 128 frames have a page of records.

use super::*;
use crate::frame::{Init, Region, RegionKind};
use crate::machine::testing::played;
use crate::units::PAGE_SIZE;
use std::vec::Vec;

/// A map of usable regions: first frame, frame behind the last, node.
fn map(regions: &[(u64, u64, u32)]) -> BootMap {
    let region = |&(from, to, node): &(u64, u64, u32)| Region {
        start: Pfn(from).addr(),
        len_bytes: (to - from) * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(node),
    };
    BootMap::new(&regions.iter().map(region).collect::<Vec<_>>()).unwrap()
}

fn plan(regions: &[(u64, u64, u32)], holes: HoleRecords) -> Vec<(u64, u64, u32)> {
    let mut all = Vec::new();
    plan_extents(&map(regions), holes, &mut |extent| {
        all.push((extent.frames.start.0, extent.frames.end.0, extent.node.0));
    });
    all
}

const KEPT: HoleRecords = HoleRecords::Kept;
const LEFT_OUT: HoleRecords = HoleRecords::LeftOut { in_large_page: 1024 };

#[test]
fn an_extent_is_whole_pages_of_one_node() {
    assert_eq!(plan(&[], KEPT), []);
    assert_eq!(plan(&[(5, 6, 3)], KEPT), [(0, 128, 3)]);
    assert_eq!(plan(&[(100, 1000, 0), (1000, 5000, 0)], KEPT), [(0, 5120, 0)]);
    assert_eq!(plan(&[(0, 4096, 0), (4096, 8192, 1)], KEPT), [(0, 4096, 0), (4096, 8192, 1)]);
}

#[test]
fn a_page_with_frames_of_two_nodes_lies_on_the_node_of_the_first() {
    // The border lies in the page from 4096 to 4224.
    assert_eq!(plan(&[(0, 4100, 0), (4100, 8192, 1)], KEPT), [(0, 4224, 0), (4224, 8192, 1)]);
    // Two more nodes have frames in that page only.
    let crowded = [(0, 4100, 0), (4100, 4110, 1), (4110, 4120, 2), (4120, 8192, 1)];
    assert_eq!(plan(&crowded, KEPT), [(0, 4224, 0), (4224, 8192, 1)]);
    // The page's first usable frame is behind a hole.
    assert_eq!(
        plan(&[(0, 4096, 0), (4100, 4101, 1), (4101, 6000, 0)], KEPT),
        [(0, 4096, 0), (4096, 4224, 1), (4224, 6016, 0)]
    );
}

#[test]
fn interleaved_nodes_have_an_extent_for_each_region() {
    let regions: Vec<_> = (0..8u32).map(|n| (u64::from(n) * 256, u64::from(n + 1) * 256, n % 2)).collect();
    assert_eq!(plan(&regions, KEPT), regions);
    assert_eq!(plan(&regions, LEFT_OUT), regions);
}

#[test]
fn the_records_of_a_hole_belong_to_what_lies_before_it() {
    let regions = [(0, 1000, 0), (3000, 4000, 1)];
    assert_eq!(plan(&regions, KEPT), [(0, 2944, 0), (2944, 4096, 1)]);
    // The hole has one whole large page, from 1024 to 2048.
    assert_eq!(plan(&regions, LEFT_OUT), [(0, 1024, 0), (2048, 4096, 1)]);
    let one_node = [(0, 1000, 0), (3000, 4000, 0)];
    assert_eq!(plan(&one_node, KEPT), [(0, 4096, 0)]);
    assert_eq!(plan(&one_node, LEFT_OUT), [(0, 1024, 0), (2048, 4096, 0)]);
    // None: it ends in the page after the one that it begins in.
    assert_eq!(plan(&[(0, 1000, 0), (2047, 4000, 0)], LEFT_OUT), [(0, 4096, 0)]);
}

#[test]
fn every_usable_frame_has_a_record_whatever_the_map() {
    let mut dice = crate::frame::tests::Dice(7);
    for _ in 0..played(600, 3000) {
        let (mut at, mut regions) = (dice.roll(5000), Vec::new());
        for _ in 0..1 + dice.roll(20) {
            let most = [3, 200, 3000][dice.roll(3) as usize];
            let end = at + 1 + dice.roll(most);
            regions.push((at, end, dice.roll(3) as u32));
            at = end + [0, 0, 1, dice.roll(6000)][dice.roll(4) as usize];
        }
        let usable = |n: u64| regions.iter().find(|(from, to, _)| (*from..*to).contains(&n));
        for holes in [KEPT, LEFT_OUT] {
            let extents = plan(&regions, holes);
            assert!(extents.len() <= regions.len());
            assert!(extents.iter().all(|(from, to, _)| from % 128 == 0 && to % 128 == 0 && from < to));
            assert!(extents.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            for &(from, to, node) in &extents {
                for page in (from..to).step_by(128) {
                    let first = (page..page + 128).find_map(usable);
                    assert!(first.is_none_or(|(_, _, of)| *of == node), "page {page} of {regions:?}");
                }
            }
            let has_record = |n: u64| extents.iter().any(|(from, to, _)| (*from..*to).contains(&n));
            assert!(regions.iter().all(|&(from, to, _)| (from..to).all(has_record)));
            let gaps = extents.windows(2).map(|pair| (pair[0].1, pair[1].0)).filter(|gap| gap.0 < gap.1);
            for (from, to) in gaps {
                assert!(holes == LEFT_OUT && from % 1024 == 0 && to % 1024 == 0);
            }
        }
    }
}
