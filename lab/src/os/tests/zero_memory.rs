//! Zeros, however they are had.

use super::*;

#[test]
fn memory_of_every_kind_reads_as_zeros_and_is_aligned() {
    for pages in [ZeroPages::Huge, ZeroPages::Small, ZeroPages::Shown] {
        let memory = ZeroMemory::new(HUGE, pages).unwrap();
        assert_eq!(memory.bytes().len(), HUGE);
        assert!(memory.bytes().as_ptr().addr().is_multiple_of(HUGE));
        assert!(memory.bytes().iter().all(|&byte| byte == 0));
    }
}

/// What is resident is the process's, in which other tests allocate and free meanwhile: so more than once.
#[test]
fn what_is_only_read_is_faulted_in_and_not_resident() {
    let stays_out = || {
        let memory = ZeroMemory::new(4 * HUGE, ZeroPages::Small).unwrap();
        let (faults, resident) = (minor_faults(), resident_bytes().unwrap());
        assert_eq!(memory.bytes().iter().step_by(PAGE).map(|&byte| u64::from(byte)).sum::<u64>(), 0);
        assert!(minor_faults() - faults >= (4 * HUGE / PAGE) as u64);
        resident_bytes().unwrap() < resident + 4 * HUGE as u64
    };
    assert!((0..32).any(|_| stays_out()));
    assert!(table_bytes().unwrap() > 0);
}

/// A length that wraps round would have pages shown over whatever else the process has.
#[test]
fn more_bytes_than_there_are_addresses_are_refused() {
    for pages in [ZeroPages::Huge, ZeroPages::Small, ZeroPages::Shown] {
        for len_bytes in [usize::MAX, usize::MAX - HUGE + 1, usize::MAX - HUGE] {
            assert!(ZeroMemory::new(len_bytes, pages).is_err(), "{len_bytes:#x} {pages:?}");
        }
    }
}
