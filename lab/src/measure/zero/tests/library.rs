//! The seed's programs, small: what they take is counted exactly.

use super::*;

const MIB: u64 = 1 << 20;

fn rows_of(kind: ZeroPage) -> Vec<LibraryRow> {
    rows(kind, 32 * MIB, 64 * MIB).unwrap()
}

fn find(rows: &[LibraryRow], program: Program) -> &LibraryRow {
    rows.iter().find(|row| row.program == program.name()).unwrap()
}

#[test]
fn memory_that_is_only_read_costs_one_huge_page_and_no_table_below() {
    let huge = rows_of(ZeroPage::Huge);
    let read = find(&huge, Program::Read);
    assert_eq!((read.faults, read.resident_bytes, read.huge_zero_pages), (32, 0, 1));
    assert!(read.frames <= 512 + 3 && read.table_bytes <= 3 * PAGE, "{read:?}");
    let shared = rows_of(ZeroPage::Virtual);
    let shared = find(&shared, Program::Read);
    assert_eq!((shared.faults, shared.resident_bytes, shared.huge_zero_pages), (32, 0, 1));
    assert!(shared.frames <= 1 + 3 && shared.table_bytes <= 3 * PAGE, "{shared:?}");
    let small = rows_of(ZeroPage::Small);
    let small = find(&small, Program::Read);
    assert_eq!((small.faults, small.resident_bytes), (64 * MIB / PAGE, 0));
    assert!(small.table_bytes >= 32 * PAGE, "{small:?}");
    let none = rows_of(ZeroPage::None);
    assert_eq!(find(&none, Program::Read).resident_bytes, 64 * MIB);
}

#[test]
fn without_a_zero_page_a_program_that_writes_two_fifths_takes_more_than_twice_the_memory() {
    let [huge, none] = [ZeroPage::Huge, ZeroPage::None].map(rows_of);
    let resident = |rows: &[LibraryRow]| find(rows, Program::Fourier).resident_bytes as f64;
    let ratio = resident(&none) / resident(&huge);
    assert!((2.3..=2.5).contains(&ratio), "{ratio}");
}

#[test]
fn comparing_halves_takes_one_fault_for_each_huge_page() {
    for kind in [ZeroPage::Huge, ZeroPage::Virtual] {
        let rows = rows_of(kind);
        for program in [Program::Compare, Program::BytePerPage] {
            let row = find(&rows, program);
            assert_eq!((row.faults, row.huge_zero_pages, row.resident_bytes), (16, 1, 0));
        }
    }
}
