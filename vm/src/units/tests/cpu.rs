//! Sets of CPUs.

use super::*;

#[test]
fn a_mask_lists_the_inserted_cpus() {
    let mut mask = CpuMask::first(2);
    mask.insert(CpuId(70));
    mask.insert(CpuId(9999));
    mask.remove(CpuId(0));
    assert_eq!(mask.iter().map(|c| c.0).collect::<std::vec::Vec<_>>(), [1, 70]);
    assert_eq!(mask.count(), 2);
    assert!(mask.contains(CpuId(70)) && !mask.contains(CpuId(0)));
}
