use super::*;

fn page(vpn: u64, size: PageSize, pfn: u64) -> Translation {
    let rights = Rights::READ | Rights::USER;
    Translation { vpn: Vpn(vpn), size, pfn: Pfn(pfn), rights, dirty: false }
}

fn hit(tlb: &Tlb, vpn: u64) -> Option<u64> {
    tlb.hit(VirtAddr(vpn << 12 | 5), Access::Read).map(|at| at.0)
}

#[test]
fn a_page_of_each_size_is_found_at_its_every_end() {
    for size in [PageSize::Base, PageSize::Huge, PageSize::Giant] {
        let mut tlb = Tlb::new();
        assert_eq!(tlb.insert(page(1 << 18, size, 7 << 18)), None);
        let last = size.pages() - 1;
        assert_eq!(hit(&tlb, 1 << 18), Some(7 << 30 | 5));
        assert_eq!(hit(&tlb, (1 << 18) + last), Some((7 << 18 | last) << 12 | 5));
        assert_eq!(hit(&tlb, (1 << 18) + last + 1), None);
        assert_eq!(hit(&tlb, (1 << 18) - 1), None);
    }
}

#[test]
fn a_flushed_page_takes_every_size_and_the_tables_above_with_it() {
    for size in [PageSize::Base, PageSize::Huge, PageSize::Giant] {
        let mut tlb = Tlb::new();
        tlb.insert(page(1 << 18, size, 7 << 18));
        UPPER.iter().for_each(|&level| tlb.insert_table(level, Vpn(1 << 18), Pfn(9)));
        assert_eq!(tlb.table_for(Vpn(1 << 18)), Some((Level::Pte, Pfn(9))));
        let last = (1 << 18) + size.pages() - 1;
        tlb.flush_range(VpnRange::new(Vpn(last), Vpn(last + 1)));
        assert_eq!(hit(&tlb, 1 << 18), None);
        tlb.flush_range(VpnRange::new(Vpn(1 << 18), Vpn((1 << 18) + 1)));
        assert_eq!(tlb.table_for(Vpn(1 << 18)), None);
    }
}

#[test]
fn a_flush_leaves_neighbours_alone_and_a_full_flush_nothing() {
    let mut tlb = Tlb::new();
    (10..20).for_each(|vpn| assert_eq!(tlb.insert(page(vpn, PageSize::Base, 100 + vpn)), None));
    tlb.flush_range(VpnRange::new(Vpn(12), Vpn(15)));
    let left = |tlb: &Tlb| (10..20).filter(|&vpn| hit(tlb, vpn).is_some()).collect::<Vec<_>>();
    assert_eq!(left(&tlb), [10, 11, 15, 16, 17, 18, 19]);
    tlb.flush_range(VpnRange::new(Vpn(16), Vpn(1 << 40)));
    assert_eq!(left(&tlb), [10, 11, 15]);
    tlb.flush_all();
    assert!(left(&tlb).is_empty());
}

#[test]
fn a_store_needs_a_dirty_entry_and_user_code_a_user_page() {
    let mut tlb = Tlb::new();
    let rights = Rights::READ | Rights::WRITE | Rights::USER;
    let at = |access| (VirtAddr(1 << 12), access);
    tlb.insert(Translation { rights, ..page(1, PageSize::Base, 5) });
    let (addr, write) = at(Access::Write);
    assert_eq!(tlb.hit(addr, write), None);
    assert_eq!(tlb.insert(Translation { rights, dirty: true, ..page(1, PageSize::Base, 5) }), None);
    assert!(tlb.hit(addr, write).is_some());
    assert_eq!(tlb.hit(addr, Access::Execute), None);
    tlb.insert(Translation { rights: Rights::READ, ..page(1, PageSize::Base, 5) });
    assert_eq!(tlb.hit(addr, Access::Read), None);
}

#[test]
fn nothing_comes_back_when_the_generations_have_gone_round() {
    let mut tlb = Tlb::new();
    tlb.insert(page(512, PageSize::Huge, 1024));
    tlb.insert(page(7, PageSize::Base, 9));
    tlb.insert_table(Level::Pmd, Vpn(7), Pfn(3));
    for _ in 0..3 * 4096 {
        tlb.flush_all();
        assert_eq!((hit(&tlb, 7), hit(&tlb, 513), tlb.table_for(Vpn(7))), (None, None, None));
    }
}

#[test]
fn a_forgotten_page_takes_no_table_and_no_neighbour_with_it() {
    for size in [PageSize::Base, PageSize::Huge, PageSize::Giant] {
        let mut tlb = Tlb::new();
        tlb.insert(page(1 << 18, size, 7 << 18));
        tlb.insert(page(1 << 20, PageSize::Base, 5));
        UPPER.iter().for_each(|&level| tlb.insert_table(level, Vpn(1 << 18), Pfn(9)));
        tlb.forget(Vpn(1 << 18));
        assert_eq!(hit(&tlb, 1 << 18), None);
        assert_eq!(tlb.table_for(Vpn(1 << 18)), Some((Level::Pte, Pfn(9))));
        assert!(hit(&tlb, 1 << 20).is_some());
    }
}

#[test]
fn a_cached_page_refuses_what_its_rights_lack() {
    for size in [PageSize::Base, PageSize::Huge] {
        let mut tlb = Tlb::new();
        let read_only = Rights::READ | Rights::USER;
        tlb.insert(Translation { rights: read_only, ..page(1 << 18, size, 7 << 18) });
        assert!(tlb.refuses(Vpn(1 << 18), Access::Write) && !tlb.refuses(Vpn(1 << 18), Access::Read));
        assert!(!tlb.refuses(Vpn(1 << 20), Access::Write), "nothing is known");
        let clean = Translation { rights: read_only | Rights::WRITE, dirty: false, ..page(9, size, 9 << 9) };
        tlb.flush_all();
        tlb.insert(Translation { vpn: Vpn(0), ..clean });
        assert!(!tlb.refuses(Vpn(0), Access::Write), "only the dirty bit is missing");
    }
}

#[test]
fn two_sizes_over_one_page_and_a_frame_that_changed_are_noticed() {
    let mut tlb = Tlb::new();
    tlb.insert(page(512, PageSize::Base, 5));
    assert!(matches!(tlb.insert(page(512, PageSize::Huge, 1024)), Some(Violation::SizesOverlap { .. })));
    assert!(matches!(tlb.insert(page(700, PageSize::Base, 5)), Some(Violation::SizesOverlap { .. })));
    assert!(matches!(tlb.insert(page(700, PageSize::Base, 6)), Some(Violation::FrameChanged { .. })));
    assert_eq!(hit(&tlb, 700), Some(6 << 12 | 5));
}
