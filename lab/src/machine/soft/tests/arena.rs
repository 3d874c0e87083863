use super::*;

fn byte(arena: &Arena, at: u64) -> u8 {
    // SAFETY: tests read within regions only.
    unsafe { arena.window(PhysAddr(at)).read() }
}

#[test]
fn dirty_memory_is_dirty_to_the_last_byte_of_each_region() {
    let regions = [PfnRange::new(Pfn(16), Pfn(18)), PfnRange::new(Pfn(32), Pfn(33))];
    let arena = Arena::new(&regions, Fill::Dirty).unwrap();
    for at in [0x10000, 0x11fff, 0x20000, 0x20fff] {
        assert_eq!(byte(&arena, at), DIRTY_BYTE);
    }
    assert_eq!(arena.phys_of(arena.window(PhysAddr(0x20123))), PhysAddr(0x20123));
}

#[test]
fn untouched_and_present_memory_is_zero() {
    for fill in [Fill::Untouched, Fill::Sparse, Fill::Present] {
        let arena = Arena::flat(Pfn(0), 4, fill).unwrap();
        assert_eq!((byte(&arena, 0), byte(&arena, 0x3fff)), (0, 0));
    }
}

#[test]
fn unordered_empty_and_overlapping_regions_are_refused() {
    let range = |a, b| PfnRange::new(Pfn(a), Pfn(b));
    for bad in [vec![], vec![range(1, 1)], vec![range(4, 6), range(1, 2)], vec![range(1, 4), range(3, 6)]] {
        assert!(Arena::new(&bad, Fill::Untouched).is_err(), "{bad:?}");
    }
}

#[test]
#[should_panic(expected = "no memory")]
fn an_address_below_the_arena_has_no_window() {
    Arena::flat(Pfn(16), 1, Fill::Untouched).unwrap().window(PhysAddr(0));
}
