//! Which blocks are deferred.

use super::*;
use std::vec::Vec;

fn range(from: u64, to: u64) -> PfnRange {
    PfnRange::new(Pfn(from), Pfn(to))
}

fn plans(table: PfnRange, spans: &[(u64, u64, u8)]) -> Vec<(u64, u64, u8, bool)> {
    let mut all = Vec::new();
    let spans = spans.iter().map(|&(from, to, zone)| (range(from, to), zone, Init::Dirty));
    plan_deferred(table, spans, |frames, zone, usable| {
        all.push((frames.start.0, frames.end.0, zone, usable.is_some()));
    });
    all
}

#[test]
fn edges_and_the_first_block_of_a_zone_are_not_deferred() {
    let table = range(100, 9000);
    assert_eq!(plans(table, &[(100, 9000, 0)]), [(2048, 8192, 0, true)]);
    assert_eq!(plans(table, &[(100, 1500, 0)]), [(2048, 9216, 0, false)]);
    assert_eq!(plans(table, &[(1500, 8200, 0)]), [(0, 1024, 0, false), (3072, 8192, 0, true)]);
    assert_eq!(plans(range(0, 1024), &[(0, 1024, 0)]), []);
}

#[test]
fn a_block_with_a_hole_in_it_is_not_deferred() {
    let spans = [(0, 5000, 0), (5001, 5002, 0), (5003, 9000, 1), (20_000, 24_576, 2)];
    let expected = [
        (1024, 4096, 0, true),
        (6144, 8192, 1, true),
        (9216, 19_456, 1, false),
        (21_504, 24_576, 2, true),
        (24_576, 31_744, 2, false),
    ];
    assert_eq!(plans(range(0, 30_800), &spans), expected);
}

#[test]
fn a_border_between_nodes_is_an_edge() {
    let spans = [(0, 4000, 0), (4000, 8192, 1)];
    assert_eq!(plans(range(0, 8192), &spans), [(1024, 3072, 0, true), (5120, 8192, 1, true)]);
}

#[test]
fn the_hint_only_grows() {
    let deferred = DeferredRange::<crate::machine::testing::TestCpu>::new(range(0, 1 << 20), 0, None);
    deferred.advance(7);
    deferred.advance(3);
    assert_eq!(deferred.next(), 7);
}
