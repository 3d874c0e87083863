//! Boot maps and the early allocator.

use super::*;
use crate::machine::testing::TestMachine;
use crate::sync::Carve;
use core::alloc::Layout;
use std::string::ToString;
use std::vec::Vec;

fn usable(start: u64, len_bytes: u64) -> Region {
    Region { start: PhysAddr(start), len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) }
}

fn refused(regions: &[Region]) -> BootError {
    BootMap::new(regions).unwrap_err()
}

#[test]
fn each_mistake_of_firmware_has_its_own_error() {
    let good = usable(0x1000, 0x3000);
    assert_eq!(refused(&[good, usable(0x4000, 0)]), BootError::Empty { region: 1 });
    assert_eq!(refused(&[usable(0x1001, 0x1000)]), BootError::Unaligned { region: 0 });
    assert_eq!(refused(&[usable(0x1000, 0x1001)]), BootError::Unaligned { region: 0 });
    assert_eq!(refused(&[good, usable(0x3000, 0x1000)]), BootError::Overlap { region: 1 });
    assert_eq!(refused(&[good, usable(0, 0x1000)]), BootError::Unsorted { region: 1 });
    assert_eq!(refused(&[usable(!0xfff, 0x1000)]), BootError::BeyondAddresses { region: 0 });
    assert_eq!(refused(&[usable(1 << 52, 0x1000)]), BootError::BeyondAddresses { region: 0 });
    assert_eq!(refused(&[usable(0x1000, !0xfff)]), BootError::BeyondAddresses { region: 0 });
    let many: Vec<_> = (0..129).map(|n| usable(n << 20, 0x1000)).collect();
    assert_eq!(refused(&many), BootError::TooManyRegions);
    assert_eq!(refused(&[good, good]).to_string(), "boot region 1 overlaps the one before it");
}

#[test]
fn no_sequence_of_odd_numbers_panics() {
    let odd = [0, 1, 0xfff, 0x1000, 0x2000, 1 << 51, 1 << 52, u64::MAX, !0xfff];
    for (a, b) in odd.iter().flat_map(|&a| odd.iter().map(move |&b| (a, b))) {
        for (c, d) in odd.iter().flat_map(|&c| odd.iter().map(move |&d| (c, d))) {
            if let Ok(map) = BootMap::new(&[usable(a, b), usable(c, d)]) {
                assert!(map.regions()[0].frames().end <= map.regions()[1].frames().start);
            }
        }
    }
}

#[test]
fn carved_memory_is_aligned_and_gone() {
    let machine = TestMachine::new(16);
    let start = machine.frames().start;
    let map = BootMap::new(&[usable(start.addr().0, 16 << 12)]).unwrap();
    let mut memory = map.claim(&machine).unwrap();
    let mut carve = |size, align| {
        let layout = Layout::from_size_align(size, align).unwrap();
        let carved = memory.early_allocator().carve(layout)?;
        Some((carved.as_ptr().addr(), carved.len(), memory.map().span().map_or(0, |span| span.len())))
    };
    let (at, len, left) = carve(100, 64).unwrap();
    assert_eq!((at % 64, len, left), (0, 100, 15));
    assert!(carve(8, 8).unwrap().0 < at);
    assert_eq!(carve(16 << 12, 8), None);
    assert!(carve(15 << 12, 4096).is_some());
    assert_eq!(carve(1, 1), None);
    assert_eq!(carve(0, 2 * 4096), None);
}

#[test]
fn memory_is_claimed_once_whatever_map_describes_it() {
    let machine = TestMachine::new(64);
    let start = machine.frames().start.addr().0;
    let map = |from: u64, to: u64| BootMap::new(&[usable(start + (from << 12), (to - from) << 12)]).unwrap();
    let refused = |map: BootMap| map.claim(&machine).err();
    let all = map(0, 32);
    let second = all.clone();
    let mut memory = all.claim(&machine).unwrap();
    let early = memory.early_allocator().carve(Layout::new::<[u64; 9]>()).unwrap();
    assert_eq!(refused(second), Some(BootError::NotFree));
    assert_eq!(refused(map(31, 33)), Some(BootError::NotFree));
    // What was allocated early lives longer than a system.
    let _ = memory;
    assert_eq!(refused(map(0, 32)), Some(BootError::NotFree));
    early.fill(core::mem::MaybeUninit::new(1));
    // Nothing of a map that is refused is claimed.
    let parts = [usable(start + (32 << 12), 1 << 12), usable(start + (64 << 12), 1 << 12)];
    assert_eq!(refused(BootMap::new(&parts).unwrap()), Some(BootError::NotFree), "beyond the machine");
    assert_eq!(refused(map(32, 64)), None);
}
