//! Tests of making a boot map of the firmware's.

use super::*;
use std::string::ToString;
use std::vec::Vec;

const MIB: u64 = 1 << 20;
const IMAGE: Range<u64> = MIB..3 * MIB;
const LOW: [Range<u64>; 2] = [0..MIB, 0..0];

fn entry(start: u64, len_bytes: u64, kind: u32) -> MemoryEntry {
    MemoryEntry { start, len_bytes, kind }
}

fn qemu() -> Vec<MemoryEntry> {
    std::vec![
        entry(0, 0x9fc00, 1),
        entry(0x9fc00, 0x400, 2),
        entry(0xf0000, 0x10000, 2),
        entry(MIB, 63 * MIB - 0x21000, 1),
        entry(64 * MIB - 0x21000, 0x21000, 2),
        entry(0xfffc_0000, 0x4_0000, 2),
    ]
}

fn spans(map: &BootMap) -> Vec<(u64, u64)> {
    map.regions().iter().map(|r| (r.start.0, r.start.0 + r.len_bytes)).collect()
}

#[test]
fn what_is_usable_and_not_taken_is_the_librarys() {
    let module = 8 * MIB + 100..9 * MIB + 100;
    let map = boot_map(&qemu(), &IMAGE, &[0..MIB, module], 1 << 40).unwrap();
    assert_eq!(spans(&map), [(3 * MIB, 8 * MIB), (9 * MIB + 0x1000, 64 * MIB - 0x21000)]);
}

#[test]
fn the_order_of_entries_does_not_matter() {
    let mut entries = qemu();
    entries.reverse();
    let map = boot_map(&entries, &IMAGE, &LOW, 1 << 40).unwrap();
    assert_eq!(spans(&map), [(3 * MIB, 64 * MIB - 0x21000)]);
}

#[test]
fn memory_beyond_the_limit_is_left_alone() {
    let map = boot_map(&qemu(), &IMAGE, &LOW, 16 * MIB).unwrap();
    assert_eq!(spans(&map), [(3 * MIB, 16 * MIB)]);
}

#[test]
fn absurd_maps_have_one_clear_error_each() {
    let refused = |entries: &[MemoryEntry]| boot_map(entries, &IMAGE, &[], 1 << 40).unwrap_err();
    let good = entry(MIB, 63 * MIB, 1);
    assert_eq!(refused(&[]), MapError::ImageOutside);
    assert_eq!(refused(&[entry(64 * MIB, MIB, 1)]), MapError::ImageOutside);
    assert_eq!(refused(&[good, entry(0x1000, u64::MAX, 2)]), MapError::BeyondAddresses { entry: 1 });
    assert_eq!(refused(&[good, entry(1 << 52, MIB, 1)]), MapError::BeyondAddresses { entry: 1 });
    assert_eq!(refused(&[good, entry(60 * MIB, 8 * MIB, 1)]), MapError::Contradiction { at: 60 * MIB });
    assert_eq!(refused(&[good, entry(2 * MIB, MIB, 2)]), MapError::Contradiction { at: 2 * MIB });
    assert_eq!(refused(&[good; 129]), MapError::TooManyEntries(129));
    assert_eq!(refused(&[entry(MIB, 2 * MIB, 1)]), MapError::Boot(BootError::NoMemory));
    assert_eq!(refused(&[good, good]).to_string(), "two of its entries claim the byte at 0x100000");
}

#[test]
fn no_two_odd_entries_panic() {
    let odd = [0, 1, 0xfff, 0x1000, MIB, 1 << 51, 1 << 52, u64::MAX - 0xfff, u64::MAX];
    for (a, b) in odd.iter().flat_map(|&a| odd.iter().map(move |&b| (a, b))) {
        for (c, d) in odd.iter().flat_map(|&c| odd.iter().map(move |&d| (c, d))) {
            let entries = [entry(a, b, 1), entry(c, d, 1)];
            if let Ok(map) = boot_map(&entries, &(0x1000..0x2000), &[0x5000..0x5001, 0..0], u64::MAX) {
                assert!(map.regions().iter().all(|region| region.len_bytes > 0));
            }
        }
    }
}
