use super::*;
use std::collections::BTreeSet;

#[test]
fn a_set_of_pages_is_a_set() {
    let (mut set, mut all) = (PageSet::default(), BTreeSet::new());
    let mut state = 3_u64;
    let mut number = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..500 {
        let start = number(4000);
        let range = start..start + number(1200);
        match number(3) {
            0 => {
                set.remove_pages(range.clone());
                all.retain(|page| !range.contains(page));
            }
            1 => {
                set.add(start..start + 1);
                all.insert(start);
            }
            _ => {
                set.add(range.clone());
                all.extend(range);
            }
        }
        assert_eq!(set.pages(), all.len() as u64);
        let tables: BTreeSet<u64> = all.iter().map(|page| page / 512).collect();
        assert_eq!(set.tables(), tables.len() as u64);
        let asked = number(4000)..number(5000);
        let right: Vec<u64> = all.iter().copied().filter(|page| asked.contains(page)).collect();
        assert_eq!(set.in_range(asked.clone()), right);
        assert_eq!(set.contains(Vpn(asked.start)), all.contains(&asked.start));
    }
}

#[test]
fn a_set_takes_over_what_another_kept() {
    let (mut one, mut two, mut kept) = (PageSet::default(), PageSet::default(), PageSet::default());
    one.add(0..10);
    two.add(5..2000);
    kept.add(0..7);
    kept.add(1990..3000);
    one.absorb(two.clone(), Some(&kept));
    assert_eq!((one.pages(), one.tables()), (20, 2));
    one.absorb(two, None);
    assert_eq!(one.pages(), 2000);
}

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
