//! Numbers near the ends of their types: nothing panics, wraps or loops for long.

use crate::units::*;

const ODD: [u64; 13] = [
    0,
    1,
    2,
    511,
    512,
    (1 << 36) - 1,
    1 << 51,
    (1 << 52) - 1,
    1 << 52,
    (1 << 52) + 7,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

#[test]
fn sums_of_pages_and_frames_saturate() {
    for a in ODD {
        for b in ODD {
            let sum = (u128::from(a) + u128::from(b)).min(u64::MAX.into()) as u64;
            assert_eq!((Vpn(a).add(b), Pfn(a).add(b)), (Vpn(sum), Pfn(sum)));
        }
        let addr = (u128::from(a) << 12).min(u128::from(u64::MAX) & !0xfff) as u64;
        assert_eq!(Vpn(a).addr(), VirtAddr(addr));
        assert_eq!(Pfn(a).addr().0, a << 12);
    }
}

#[test]
fn orders_of_any_size_have_a_size_and_an_alignment() {
    for order in (0..=u8::MAX).map(Order) {
        let frames = 1u128.checked_shl(order.0.into()).unwrap_or(u128::MAX);
        assert_eq!(u128::from(order.frames()), frames.min(u64::MAX.into()));
        let bytes = frames.saturating_mul(4096);
        assert_eq!(order.bytes() as u128, bytes.min(usize::MAX as u128));
        for at in ODD {
            assert_eq!(Pfn(at).is_aligned(order), u128::from(at).is_multiple_of(frames), "{at:#x} {order:?}");
        }
    }
}

/// The numbers of a range, which may be inverted, as an interval that is not.
fn interval(range: VpnRange) -> (u64, u64) {
    (range.start.0, range.end.0.max(range.start.0))
}

#[test]
fn inverted_ranges_are_empty() {
    let ranges = || ODD.iter().flat_map(|&a| ODD.map(|b| VpnRange { start: Vpn(a), end: Vpn(b) }));
    for range in ranges() {
        let (start, end) = interval(range);
        assert_eq!((range.len(), range.is_empty()), (end - start, end == start));
        assert_eq!(range.len_bytes(), (u128::from(end - start) * 4096).min(u64::MAX.into()) as u64);
        assert_eq!(VpnRange::new(range.start, range.end), VpnRange { start: Vpn(start), end: Vpn(end) });
        for n in ODD {
            assert_eq!(range.contains(Vpn(n)), start <= n && n < end);
        }
        for other in ranges() {
            let shared = start.max(other.start.0) < end.min(interval(other).1);
            assert_eq!(range.overlaps(other), shared, "{range:?} {other:?}");
            assert_eq!(range.intersect(other).is_empty(), !shared);
            if !other.is_empty() {
                assert_eq!(range.covers(other), range.intersect(other) == other);
            }
        }
    }
}

#[test]
fn bytes_make_a_range_or_none() {
    for start in ODD {
        for len in ODD {
            let end = u128::from(start) + ((u128::from(len) + 4095) & !4095);
            let fits = start.is_multiple_of(4096) && end <= u64::MAX.into() && len <= u64::MAX - 4095;
            let range = VpnRange::from_bytes(VirtAddr(start), len);
            assert_eq!(range.is_some(), fits, "{start:#x} {len:#x}");
            assert!(range.is_none_or(|range| range.end.addr().0 == end as u64));
        }
    }
}

#[test]
fn cpus_and_nodes_that_no_set_can_name_are_in_none() {
    let all = CpuMask::<[u64; MAX_CPUS / 64]>::first(u32::MAX);
    assert_eq!((all.count(), CpuMask::<[u64; 3]>::first(u32::MAX).count()), (MAX_CPUS as u32, 192));
    for odd in [MAX_CPUS as u32, 1 << 16, 1 << 31, u32::MAX] {
        let mut mask = CpuMask::<[u64; MAX_CPUS / 64]>::new();
        mask.insert(CpuId(odd));
        assert!(mask.is_empty() && !all.contains(CpuId(odd)));
        mask.remove(CpuId(odd));
        assert!(mask.is_empty());
        assert_eq!(NodeMask::of(NodeId(odd)), NodeMask::EMPTY);
        assert!(!NodeMask::from_bits(7).contains(NodeId(odd)));
    }
    assert_eq!(NodeMask::of(NodeId(64)), NodeMask::EMPTY);
}

#[test]
fn every_page_has_a_slot_at_every_level() {
    let levels = [Level::Pte, Level::Pmd, Level::Pud, Level::P4d, Level::Pgd];
    for level in levels {
        assert!(ODD.iter().all(|&page| level.index(Vpn(page)) < Level::ENTRIES));
        assert_eq!(level.table_pages(), level.entry_pages() * Level::ENTRIES as u64);
        assert!(level.leaf_size().is_none_or(|size| size.pages() == level.entry_pages()));
    }
}
