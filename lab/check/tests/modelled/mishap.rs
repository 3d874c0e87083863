//! Every allocation of every operation fails once.

use interleaf::space::Path;
use interleaf::table::format::X86_64;
use interleaf_check::calls::{Call, MapFlags, PAGE, Prot, advice};
use interleaf_check::mishap::{Attempt, MishapMode, Mishaps};
use interleaf_check::setting::Setting;

const BASE: u64 = (16 << 40) + (8 << 30);
const BOTH: Prot = Prot::READ.union(Prot::WRITE);

fn map(page: u64, pages: u64, kind: MapFlags) -> Call {
    let flags = MapFlags::ANONYMOUS | MapFlags::FIXED | kind;
    Call::Mmap { hint: BASE + page * PAGE, len: pages * PAGE, prot: BOTH, flags }
}

fn range(page: u64, pages: u64) -> (u64, u64) {
    (BASE + page * PAGE, pages * PAGE)
}

fn write(page: u64) -> Call {
    Call::Write { addr: BASE + page * PAGE, value: 40 + page as u8 }
}

type Case = (Vec<Call>, Call);

fn unmap(page: u64, pages: u64) -> Call {
    let (addr, len) = range(page, pages);
    Call::Munmap { addr, len }
}

fn protect(page: u64, pages: u64, prot: Prot) -> Call {
    let (addr, len) = range(page, pages);
    Call::Mprotect { addr, len, prot }
}

fn advise(page: u64, pages: u64, advice: i32) -> Call {
    let (addr, len) = range(page, pages);
    Call::Madvise { addr, len, advice }
}

/// Eight private pages: two written, one read.
fn some() -> Vec<Call> {
    vec![map(0, 8, MapFlags::PRIVATE), write(1), write(3), Call::Read { addr: BASE + 4 * PAGE }]
}

/// Eight shared pages, two written.
fn shared() -> Vec<Call> {
    vec![map(0, 8, MapFlags::SHARED), write(1), write(3)]
}

/// The private ones in three mappings.
fn split() -> Vec<Call> {
    [some(), vec![protect(2, 2, Prot::READ)]].concat()
}

/// In five.
fn rights() -> Vec<Call> {
    [split(), vec![protect(5, 1, Prot::empty()), write(0), write(7)]].concat()
}

/// Operations, and what is there before.
fn cases() -> Vec<Case> {
    [mapping(), changing(), advising(), touching()].concat()
}

fn mapping() -> Vec<Case> {
    vec![
        (vec![], map(0, 8, MapFlags::PRIVATE)),
        (vec![], map(0, 8, MapFlags::SHARED)),
        (some(), map(20, 4, MapFlags::PRIVATE)),
        (some(), map(8, 4, MapFlags::PRIVATE)),
        (some(), map(2, 4, MapFlags::PRIVATE)),
        (some(), map(2, 4, MapFlags::SHARED)),
        (some(), map(20, 4, MapFlags::PRIVATE | MapFlags::POPULATE)),
        (rights(), map(1, 6, MapFlags::PRIVATE)),
        (some(), unmap(0, 8)),
        (some(), unmap(2, 2)),
        (some(), unmap(0, 2)),
        (shared(), unmap(2, 2)),
        (rights(), unmap(1, 6)),
    ]
}

fn changing() -> Vec<Case> {
    vec![
        (some(), protect(0, 8, Prot::READ)),
        (some(), protect(2, 2, Prot::READ)),
        (some(), protect(2, 2, Prot::empty())),
        (split(), protect(2, 2, BOTH)),
        (rights(), protect(0, 8, Prot::READ)),
        (rights(), protect(1, 5, Prot::READ | Prot::EXEC)),
        (rights(), protect(1, 6, Prot::empty())),
        (rights(), protect(0, 8, BOTH)),
    ]
}

fn advising() -> Vec<Case> {
    vec![
        (rights(), advise(1, 6, advice::DONTFORK)),
        (rights(), advise(0, 8, advice::SEQUENTIAL)),
        (some(), advise(1, 2, advice::DONTNEED)),
        (some(), advise(1, 2, advice::FREE)),
        (some(), advise(2, 2, advice::DONTFORK)),
        (some(), advise(0, 8, advice::POPULATE_WRITE)),
        (some(), advise(0, 8, advice::POPULATE_READ)),
        (shared(), advise(0, 8, advice::POPULATE_WRITE)),
    ]
}

fn touching() -> Vec<Case> {
    let heap = Setting::default().start_brk;
    vec![
        (some(), write(2)),
        (some(), write(4)),
        (some(), Call::Read { addr: BASE + 5 * PAGE }),
        (vec![map(0, 8, MapFlags::PRIVATE)], write(0)),
        (vec![map(0, 8, MapFlags::PRIVATE)], Call::Read { addr: BASE }),
        (vec![map(0, 8, MapFlags::SHARED)], write(0)),
        (some(), Call::Brk { addr: heap + 4 * PAGE }),
        (vec![Call::Brk { addr: heap + 4 * PAGE }], Call::Brk { addr: heap + PAGE }),
        (vec![Call::Brk { addr: heap + 4 * PAGE }], Call::Brk { addr: heap + 6 * PAGE }),
        (some(), Call::Mincore { addr: BASE, len: 8 * PAGE }),
    ]
}

fn every_allocation_may_fail(path: Path) {
    let mut machine = Mishaps::<X86_64>::new(path).expect("a machine");
    let mut mishaps = 0;
    for (setup, call) in cases() {
        let counts = machine.inject(MishapMode::Nth, &setup, Attempt::Call(&call), BASE..BASE + 32 * PAGE);
        println!("{:>3} mishaps, {:>3} survived: {call}", counts.mishaps, counts.survived);
        mishaps += counts.mishaps;
    }
    assert!(mishaps > 40, "only {mishaps} allocations were failed");
    assert!(machine.inject_into_new_space() >= 1);
}

#[test]
fn a_failed_allocation_changes_nothing_where_faults_speculate() {
    every_allocation_may_fail(Path::Speculative);
}

#[test]
fn a_failed_allocation_changes_nothing_where_faults_take_the_lock() {
    every_allocation_may_fail(Path::Locked);
}

#[test]
fn a_failed_allocation_changes_nothing_where_faults_lock_the_mapping() {
    every_allocation_may_fail(Path::VmaLock);
}

/// Where waiting does not help, a fault ends with `NoMemory` and nothing has changed.
fn memory_may_stay_away(path: Path) {
    let mut machine = Mishaps::<X86_64>::new(path).expect("a machine");
    for (setup, call) in cases() {
        let counts = machine.inject(MishapMode::From, &setup, Attempt::Call(&call), BASE..BASE + 32 * PAGE);
        println!("{:>3} mishaps, {:>3} survived: {call}", counts.mishaps, counts.survived);
        let faults = matches!(call, Call::Write { .. } | Call::Read { .. });
        // A fault that needs memory at all cannot do without; it can do without what it prepared and did not
        // use.
        assert!(!faults || counts.mishaps == 0 || counts.survived < counts.mishaps, "{call} survived all");
    }
}

#[test]
fn where_memory_stays_away_faults_end_with_no_memory_where_they_speculate() {
    memory_may_stay_away(Path::Speculative);
}

#[test]
fn where_memory_stays_away_faults_end_with_no_memory_where_they_take_the_lock() {
    memory_may_stay_away(Path::Locked);
}

/// Private pages in three tables, shared ones beside them.
fn far() -> Vec<Call> {
    let shared = [map(20, 2, MapFlags::SHARED), write(20)];
    let tables = [1, 3].map(|table| [map(512 * table, 2, MapFlags::PRIVATE), write(512 * table)]);
    [some(), shared.to_vec(), tables.concat()].concat()
}

/// What is there before a fork.
fn forks() -> Vec<Vec<Call>> {
    vec![vec![], some(), shared(), rights(), far(), [far(), vec![advise(0, 8, advice::WIPEONFORK)]].concat()]
}

/// What a parent, or a child, does to memory that they share.
fn calls_beside() -> Vec<Case> {
    vec![
        (some(), Call::Read { addr: BASE + 5 * PAGE }),
        (some(), unmap(2, 2)),
        (rights(), protect(0, 8, Prot::READ)),
        (rights(), unmap(1, 6)),
        (some(), advise(1, 2, advice::DONTNEED)),
        (some(), advise(1, 2, advice::FREE)),
        (far(), write(20)),
    ]
}

/// What takes a copy.
fn copies() -> Vec<Case> {
    vec![
        (some(), write(1)),
        (some(), write(4)),
        (far(), write(512)),
        (some(), advise(0, 8, advice::POPULATE_WRITE)),
    ]
}

fn allocations_of_forks_and_copies_may_fail(path: Path, mode: MishapMode) {
    let mut machine = Mishaps::<X86_64>::new(path).expect("a machine");
    let looked_at = BASE..BASE + 4 * 512 * PAGE;
    let mut mishaps = 0;
    for setup in forks() {
        let counts = machine.inject(mode, &setup, Attempt::Fork, looked_at.clone());
        println!("{:>3} mishaps, {:>3} survived: fork", counts.mishaps, counts.survived);
        assert!(counts.survived < counts.mishaps, "{counts:?} of a fork");
        mishaps += counts.mishaps;
    }
    assert!(mishaps > 20, "only {mishaps} allocations of forks were failed");
    let nr_copies = copies().len();
    for (nr, (setup, call)) in copies().into_iter().chain(calls_beside()).enumerate() {
        for attempt in [Attempt::CallOfParent(&call), Attempt::CallOfChild(&call)] {
            let counts = machine.inject(mode, &setup, attempt, looked_at.clone());
            println!("{:>3} mishaps, {:>3} survived: {attempt}", counts.mishaps, counts.survived);
            let fails = counts.survived < counts.mishaps;
            // Waiting helps where one allocation fails.
            assert!(nr >= nr_copies || counts.mishaps > 0, "{attempt} needs no memory");
            assert!(nr >= nr_copies || mode == MishapMode::Nth || fails, "{attempt} survived all");
        }
    }
}

#[test]
fn a_failed_allocation_of_a_fork_or_a_copy_changes_nothing_where_faults_speculate() {
    allocations_of_forks_and_copies_may_fail(Path::Speculative, MishapMode::Nth);
    allocations_of_forks_and_copies_may_fail(Path::Speculative, MishapMode::From);
}

#[test]
fn a_failed_allocation_of_a_fork_or_a_copy_changes_nothing_where_faults_take_the_lock() {
    allocations_of_forks_and_copies_may_fail(Path::Locked, MishapMode::Nth);
    allocations_of_forks_and_copies_may_fail(Path::Locked, MishapMode::From);
}

/// Two regions of a mapping: one with a huge page, one with the huge zero page.
fn huge() -> Vec<Call> {
    vec![map(0, 1024, MapFlags::PRIVATE), write(1), Call::Read { addr: BASE + 600 * PAGE }]
}

/// A region of base pages, which had a huge page.
fn cut() -> Vec<Call> {
    let whole = protect(3, 1, BOTH);
    vec![map(0, 1024, MapFlags::PRIVATE), write(1), write(2), protect(3, 1, Prot::READ), whole]
}

/// What allocates a huge page, the huge zero page, or a table to split one.
fn with_huge_pages() -> Vec<Case> {
    let fresh = || vec![map(0, 1024, MapFlags::PRIVATE)];
    vec![
        (fresh(), write(5)),
        (fresh(), Call::Read { addr: BASE }),
        (huge(), write(601)),
        (huge(), unmap(5, 3)),
        (huge(), unmap(5, 600)),
        (huge(), protect(5, 600, Prot::READ)),
        (huge(), map(5, 600, MapFlags::PRIVATE)),
        (huge(), advise(5, 3, advice::DONTNEED)),
        (huge(), advise(5, 600, advice::FREE)),
        (fresh(), advise(5, 400, advice::POPULATE_WRITE)),
        (cut(), advise(0, 512, advice::COLLAPSE)),
    ]
}

fn allocations_with_huge_pages_may_fail(path: Path) {
    let mut machine = Mishaps::<X86_64>::with_huge_pages(path).expect("a machine");
    let looked_at = BASE..BASE + 1024 * PAGE;
    for mode in [MishapMode::Nth, MishapMode::From] {
        for (setup, call) in with_huge_pages() {
            let counts = machine.inject(mode, &setup, Attempt::Call(&call), looked_at.clone());
            println!("{:>3} mishaps, {:>3} survived: {call}", counts.mishaps, counts.survived);
            assert!(counts.mishaps > 0, "{call} needs no memory");
            let fails = counts.survived < counts.mishaps;
            assert!(mode == MishapMode::Nth || fails, "{call} survived all");
        }
        for setup in [huge(), cut()] {
            let counts = machine.inject(mode, &setup, Attempt::Fork, looked_at.clone());
            assert!(counts.survived < counts.mishaps, "{counts:?} of a fork");
        }
        for call in [write(1), write(601), unmap(5, 3)] {
            for attempt in [Attempt::CallOfParent(&call), Attempt::CallOfChild(&call)] {
                machine.inject(mode, &huge(), attempt, looked_at.clone());
            }
        }
    }
}

#[test]
fn a_failed_allocation_changes_nothing_where_speculating_faults_install_huge_pages() {
    allocations_with_huge_pages_may_fail(Path::Speculative);
}

#[test]
fn a_failed_allocation_changes_nothing_where_locked_faults_install_huge_pages() {
    allocations_with_huge_pages_may_fail(Path::Locked);
}
