//! How a zone is divided.

use super::*;

fn plan(start: u64, frames: u64, cpus: u64) -> (usize, u64) {
    RegionPlan::new(PfnRange::new(Pfn(start), Pfn(start + frames)), frames, cpus).parts()
}

#[test]
fn regions_are_at_least_four_for_each_cpu_between_4_and_128_mib() {
    const GIB: u64 = 1 << 18;
    assert_eq!(plan(0, GIB, 16), (64, 4096));
    assert_eq!(plan(256, GIB, 16), (65, 4096));
    assert_eq!(plan(0, 1024 * GIB, 16), (8192, 32768));
    assert_eq!(plan(0, GIB, 4096), (256, 1024));
    assert_eq!(plan(0, 1024 * GIB, 1).0, 1, "one CPU");
    assert_eq!(plan(0, 8191, 16).0, 1, "little memory");
}

#[test]
fn holes_make_regions_larger_rather_than_many() {
    let span = PfnRange::new(Pfn(0), Pfn(1 << 34));
    let (len, size) = RegionPlan::new(span, 1 << 20, 16).parts();
    assert!(len <= 256, "{len} of {size}");
}

#[test]
fn a_range_is_divided_at_the_borders_of_regions() {
    let plan = RegionPlan::new(PfnRange::new(Pfn(1000), Pfn(17_000)), 16_000, 4);
    let mut heap = crate::sync::testing::Heap;
    let regions =
        Regions::<crate::machine::testing::TestCpu>::carve(&mut heap, plan, 0, 4, |cpu| (cpu.index(), 4));
    let regions = regions.unwrap();
    let parts: std::vec::Vec<_> = regions.parts(PfnRange::new(Pfn(1000), Pfn(3072))).collect();
    let range = |from, to| PfnRange::new(Pfn(from), Pfn(to));
    assert_eq!(parts, [(0, range(1000, 1024)), (1, range(1024, 2048)), (2, range(2048, 3072))]);
    let homes = regions.own().iter().map(|(_, own)| own.home);
    assert_eq!(homes.collect::<std::vec::Vec<_>>(), [0, 4, 8, 12]);
    assert_eq!(regions.from(15).take(3).collect::<std::vec::Vec<_>>(), [15, 16, 0]);
}
