//! Pages in and out.

use super::*;

#[test]
fn pages_are_taken_out_one_by_one_and_region_by_region() {
    let mut set = PageSet::default();
    set.extend(Some(Vpn(512)));
    set.insert(Vpn(2000));
    let has = |set: &PageSet, pages: [u64; 5]| pages.map(|page| set.contains(Vpn(page)));
    assert_eq!(has(&set, [511, 512, 1023, 1024, 2000]), [false, true, true, false, true]);
    set.remove(Vpn(512));
    set.remove_range(&(1000 << 12..1001 << 12));
    assert_eq!(has(&set, [512, 513, 999, 1000, 1001]), [false, true, true, false, true]);
    set.remove_range(&(100 << 12..1024 << 12));
    assert_eq!(has(&set, [513, 1001, 1023, 2000, 2001]), [false, false, false, true, false]);
    set.remove_range(&(0..u64::MAX));
    assert!(!set.contains(Vpn(2000)));
}
