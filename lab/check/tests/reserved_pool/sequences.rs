//! The sequences: private memory of one process, shared memory, and processes that forks made.

use super::{BASE, Do, HUGE, PAGE, POOL};
use interleaf_lab::os::child::Step;
use interleaf_linux_abi::{MapFlags, Prot};

fn map(page: u64, pages: u64, more: MapFlags) -> Do {
    map_at(BASE + page * HUGE, pages * HUGE, MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::FIXED | more)
}

fn map_at(hint: u64, len: u64, flags: MapFlags) -> Do {
    let prot = (Prot::READ | Prot::WRITE).bits();
    Do::Step(Step::Map { hint, len, prot, flags: (flags | MapFlags::ANONYMOUS).bits() })
}

fn unmap(addr: u64, len: u64) -> Do {
    Do::Step(Step::Unmap { addr: BASE + addr, len })
}

fn protect(addr: u64, len: u64, prot: Prot) -> Do {
    Do::Step(Step::Protect { addr: BASE + addr, len, prot: prot.bits() })
}

fn advise(addr: u64, len: u64, advice: i32) -> Do {
    Do::Step(Step::Advise { addr: BASE + addr, len, advice })
}

fn load(page: u64) -> Do {
    Do::Step(Step::Read { addr: BASE + page * HUGE })
}

fn store(page: u64) -> Do {
    Do::Step(Step::Write { addr: BASE + page * HUGE, value: 7 })
}

/// A step of another process.
fn by(process: usize, one: Do) -> Do {
    match one {
        Do::Step(step) => Do::In(process, step),
        other => panic!("{other:?} is no step of a process"),
    }
}

/// Private memory that processes share by fork: which one gets a copy, writes in place, loses a page.
fn fork_sequence() -> Vec<Do> {
    [
        store_after_fork(),
        reserve_of_parent(),
        full_pool(),
        full_pool_given_up(),
        no_reserve(),
        reserve_of_child(),
    ]
    .concat()
}

/// A fork takes no page of the pool; the first store does, and the last owner writes in place.
fn store_after_fork() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map(0, 2, none),
        store(0),
        store(1),
        Do::Fork(0, 1),
        by(1, load(0)),
        by(1, store(0)),
        store(0),
        store(1),
        by(1, load(1)),
        by(1, store(1)),
        load(0),
        Do::End(1),
        unmap(0, 2 * HUGE),
    ]
}

/// What is set aside and not touched is the parent's; a child has what is available.
fn reserve_of_parent() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map(0, 3, none),
        store(0),
        Do::Fork(0, 1),
        by(1, load(1)),
        by(1, store(2)),
        by(1, store(0)),
        store(1),
        load(2),
        Do::End(1),
        unmap(0, 3 * HUGE),
    ]
}

/// A full pool: the child's store is a bus error, the parent's takes the page from all children.
fn full_pool() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map(0, 3, none),
        store(0),
        store(1),
        store(2),
        map(8, 1, none),
        Do::Fork(0, 1),
        by(1, store(0)),
        by(1, load(0)),
        store(0),
        by(1, load(0)),
        by(1, store(0)),
        load(0),
        by(1, load(1)),
        by(1, store(1)),
        Do::Fork(1, 2),
        by(2, load(1)),
        by(2, load(0)),
        by(2, store(2)),
        store(1),
        by(1, load(1)),
        by(2, load(1)),
        by(2, store(1)),
        by(2, load(2)),
    ]
}

/// What is given up after that, one child copies; the other gets none.
fn full_pool_given_up() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        unmap(8 * HUGE, HUGE),
        by(1, store(2)),
        by(2, store(2)),
        store(2),
        by(2, load(2)),
        by(1, load(2)),
        by(1, unmap(0, 3 * HUGE)),
        Do::End(2),
        by(1, map(0, 1, none)),
        by(1, store(0)),
        Do::End(1),
        unmap(0, 2 * HUGE),
    ]
}

/// Without a reserve the parent is as its children.
fn no_reserve() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map(0, 2, MapFlags::NORESERVE),
        store(0),
        map(8, 3, none),
        Do::Fork(0, 1),
        store(0),
        by(1, store(0)),
        load(0),
        by(1, load(0)),
        by(1, unmap(0, HUGE)),
        store(0),
        Do::End(1),
    ]
}

/// A child's own memory has a reserve, and its children none.
fn reserve_of_child() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        unmap(0, 2 * HUGE),
        unmap(8 * HUGE, 3 * HUGE),
        Do::Fork(0, 1),
        by(1, map(4, 2, none)),
        by(1, store(4)),
        by(1, store(5)),
        map(8, 2, none),
        Do::Fork(1, 2),
        by(2, store(4)),
        by(1, store(4)),
        by(2, load(4)),
        by(2, load(5)),
        by(1, protect(5 * HUGE, HUGE, Prot::READ)),
        by(1, store(5)),
        by(1, protect(5 * HUGE, HUGE, Prot::READ | Prot::WRITE)),
        Do::End(2),
        by(1, store(5)),
        by(1, advise(4 * HUGE, 2 * HUGE, libc::MADV_DONTNEED)),
        by(1, load(4)),
        Do::End(1),
        unmap(8 * HUGE, 2 * HUGE),
    ]
}

fn map_shared(page: u64, pages: u64, more: MapFlags) -> Do {
    map_at(BASE + page * HUGE, pages * HUGE, MapFlags::SHARED | MapFlags::HUGETLB | MapFlags::FIXED | more)
}

/// Shared memory: an object has the pages, and keeps them until nothing of it is mapped.
fn shared_sequence() -> Vec<Do> {
    [shared_stays_whole(), shared_advice(), shared_reserve(), shared_without_reserve()].concat()
}

/// Nothing cuts a huge page, and only entries are dropped.
fn shared_stays_whole() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map_shared(0, 3, none),
        store(1),
        load(2),
        // Nothing cuts a huge page.
        unmap(PAGE, HUGE),
        protect(0, PAGE, Prot::READ),
        protect(HUGE, HUGE, Prot::READ),
        store(1),
        load(1),
        protect(HUGE, HUGE, Prot::READ | Prot::WRITE),
        store(1),
        // Only entries are dropped.
        advise(0, 3 * HUGE, libc::MADV_DONTNEED),
        load(1),
        load(2),
    ]
}

fn shared_advice() -> Vec<Do> {
    let advice = [
        libc::MADV_FREE,
        libc::MADV_DONTFORK,
        libc::MADV_DOFORK,
        libc::MADV_HUGEPAGE,
        libc::MADV_WIPEONFORK,
        libc::MADV_COLD,
        libc::MADV_POPULATE_READ,
    ];
    advice.map(|advice| advise(0, HUGE, advice)).into()
}

/// More than there is; beside private memory; what is mapped last has all of the object.
fn shared_reserve() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map_shared(8, 2, none),
        map(8, 1, none),
        unmap(0, 2 * HUGE),
        store(8),
        unmap(2 * HUGE, HUGE),
        unmap(8 * HUGE, HUGE),
        // What is set aside stays with the object, whatever part of it is mapped.
        map_shared(0, 4, none),
        unmap(HUGE, 3 * HUGE),
        map(8, 1, none),
        store(0),
        unmap(0, HUGE),
        // Over itself, and over private memory. There is enough for both: until the new memory is mapped,
        // Linux counts what the old object has.
        map_shared(0, 2, none),
        store(0),
        map_shared(0, 2, none),
        store(1),
        map(1, 1, none),
        map_shared(1, 1, none),
        unmap(0, 4 * HUGE),
    ]
}

/// Memory for which nothing is set aside; and a pool that gets smaller.
fn shared_without_reserve() -> Vec<Do> {
    let none = MapFlags::empty();
    vec![
        map_shared(0, 5, MapFlags::NORESERVE),
        store(0),
        store(1),
        map(8, 1, none),
        store(2),
        store(3),
        load(4),
        advise(4 * HUGE, HUGE, libc::MADV_POPULATE_WRITE),
        advise(0, HUGE, libc::MADV_DONTNEED),
        load(4),
        load(0),
        store(8),
        unmap(0, 5 * HUGE),
        unmap(8 * HUGE, HUGE),
        // A pool that gets smaller.
        map_shared(0, 3, none),
        store(1),
        Do::Resize(1),
        unmap(0, 2 * HUGE),
        unmap(2 * HUGE, HUGE),
        Do::Resize(POOL),
    ]
}

/// All of them.
pub fn sequence() -> Vec<Do> {
    [shared_sequence(), fork_sequence(), stays_whole(), advice(), dropped(), refused(), mapped_over()]
        .concat()
}

/// Nothing cuts a huge page.
fn stays_whole() -> Vec<Do> {
    let none = MapFlags::empty();
    let base = MapFlags::PRIVATE | MapFlags::FIXED;
    vec![
        map(0, 3, none),
        map(8, 2, none),
        store(1),
        load(2),
        // Nothing cuts a huge page.
        unmap(0, HUGE - PAGE),
        unmap(PAGE, HUGE),
        unmap(2 * HUGE + PAGE, HUGE),
        protect(0, PAGE, Prot::READ),
        protect(0, PAGE, Prot::READ | Prot::WRITE),
        advise(0, PAGE, libc::MADV_DONTFORK),
        map_at(BASE + PAGE, PAGE, base),
    ]
}

fn advice() -> Vec<Do> {
    let advice = [
        libc::MADV_DONTNEED,
        libc::MADV_FREE,
        libc::MADV_DONTFORK,
        libc::MADV_DOFORK,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
        libc::MADV_WIPEONFORK,
        libc::MADV_DONTDUMP,
        libc::MADV_DODUMP,
        libc::MADV_WILLNEED,
        libc::MADV_COLD,
        libc::MADV_POPULATE_WRITE,
    ];
    advice.map(|advice| advise(0, HUGE, advice)).into()
}

/// What is dropped is set aside again, the end rounded down; and memory for which nothing is set aside.
fn dropped() -> Vec<Do> {
    vec![
        advise(PAGE, HUGE, libc::MADV_DONTNEED),
        advise(HUGE, PAGE, libc::MADV_DONTNEED),
        advise(0, 3 * HUGE - PAGE, libc::MADV_DONTNEED),
        load(1),
        protect(HUGE, HUGE, Prot::READ),
        store(1),
        load(1),
        unmap(0, 3 * HUGE),
        // Without a reserve.
        map(0, 5, MapFlags::NORESERVE),
        store(0),
        store(1),
        store(2),
        store(3),
        store(4),
        load(4),
        advise(4 * HUGE, HUGE, libc::MADV_POPULATE_WRITE),
        advise(0, HUGE, libc::MADV_DONTNEED),
        load(4),
        load(0),
        unmap(0, 5 * HUGE),
    ]
}

/// Arguments that are refused.
fn refused() -> Vec<Do> {
    let sized = |log2: u32| MapFlags::from_bits_retain(log2 << MapFlags::HUGE_SHIFT);
    let huge = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::FIXED;
    vec![
        map_at(BASE, 0, huge),
        map_at(BASE + PAGE, HUGE, huge),
        map_at(BASE, HUGE, huge | sized(22)),
        map_at(BASE, HUGE, huge | sized(21)),
        map_at(BASE, HUGE, MapFlags::HUGETLB | MapFlags::FIXED),
        map_at(BASE + 2 * HUGE, 1, huge),
        unmap(0, 3 * HUGE),
    ]
}

/// Over what the mapping there had, and over more than there is; and a pool that gets smaller.
fn mapped_over() -> Vec<Do> {
    let none = MapFlags::empty();
    let base = MapFlags::PRIVATE | MapFlags::FIXED;
    vec![
        map(0, 4, none),
        store(3),
        map(0, 4, none),
        map_at(BASE, 2 * HUGE, base),
        map(0, 4, none),
        map(0, 5, none),
        // A pool that gets smaller.
        map(0, 1, none),
        map(4, 3, none),
        store(4),
        Do::Resize(1),
        unmap(4 * HUGE, HUGE),
        unmap(5 * HUGE, 2 * HUGE),
        store(0),
        Do::Resize(POOL),
        unmap(0, HUGE),
    ]
}
