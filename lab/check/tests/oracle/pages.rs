//! What pages hold, which accesses are allowed, where mappings and the heap go.

use crate::world::{
    NONE, PRIVATE, R, RW, SHARED, W, advise, last, map, map_as, mincore, outcome, page, protect, read,
};
use crate::world::{setting, unmap, write};
use interleaf_check::calls::{Call, CallResult, MapFlags, PAGE, PageState, Segv, advice};

fn states(calls: &[Call]) -> Vec<PageState> {
    outcome(calls).pages.into_iter().map(|(_, state)| state).collect()
}

#[test]
fn reading_private_memory_gives_the_zero_page_and_writing_a_page_of_its_own() {
    assert_eq!(states(&[map(0..1, RW), read(0)]), [PageState::Zero]);
    assert!(matches!(states(&[map(0..1, RW), read(0), write(0)])[..], [PageState::Own(_)]));
    assert!(matches!(states(&[map_as(0..1, RW, SHARED), read(0)])[..], [PageState::Shared(_)]));
}

#[test]
fn any_right_is_enough_to_read() {
    assert_eq!(last(&[map(0..1, W), read(0)]), CallResult::Byte(0));
    assert_eq!(last(&[map(0..1, NONE), read(0)]), CallResult::Segv(Segv::Rights));
    assert_eq!(last(&[map(0..1, R), write(0)]), CallResult::Segv(Segv::Rights));
    assert_eq!(last(&[read(0)]), CallResult::Segv(Segv::Unmapped));
    assert_eq!(last(&[Call::Read { addr: 1 << 63 }]), CallResult::Segv(Segv::Unmapped));
}

#[test]
fn dontneed_empties_private_pages_and_leaves_shared_ones() {
    let emptied = [map(0..1, RW), write(0), advise(0..1, advice::DONTNEED)];
    assert!(states(&emptied).is_empty());
    assert_eq!(last(&[&emptied[..], &[read(0)]].concat()), CallResult::Byte(0));
    let kept = [map_as(0..1, RW, SHARED), write(0), advise(0..1, advice::DONTNEED)];
    assert_eq!(last(&[&kept[..], &[mincore(0..1)]].concat()), CallResult::Resident(vec![1], None));
    assert_eq!(last(&[&kept[..], &[read(0)]].concat()), CallResult::Byte(7));
}

#[test]
fn pages_outlive_the_right_to_see_them() {
    let hidden = [map(0..1, RW), write(0), protect(0..1, NONE)];
    assert_eq!(last(&[&hidden[..], &[mincore(0..1)]].concat()), CallResult::Resident(vec![1], None));
    assert_eq!(last(&[&hidden[..], &[protect(0..1, R), read(0)]].concat()), CallResult::Byte(7));
    assert_eq!(last(&[map(0..1, RW), write(0), unmap(0..1), map(0..1, RW), read(0)]), CallResult::Byte(0));
}

#[test]
fn map_populate_writes_private_writable_memory_and_reads_the_rest() {
    let populate = |prot, flags| states(&[map_as(0..1, prot, flags | MapFlags::POPULATE)]);
    assert!(matches!(populate(W, PRIVATE)[..], [PageState::Own(_)]));
    assert_eq!(populate(R, PRIVATE), [PageState::Zero]);
    assert!(matches!(populate(W, SHARED)[..], [PageState::Shared(_)]));
    assert!(populate(NONE, PRIVATE).is_empty() && populate(NONE, SHARED).is_empty());
}

#[test]
fn mmap_takes_the_upper_end_of_the_highest_hole_that_fits() {
    let free = |len| Call::Mmap { hint: 0, len, prot: R, flags: PRIVATE };
    let holes = [map(63..64, R), map(59..61, R), map(55..56, R)];
    assert_eq!(last(&[&holes[..], &[free(2 * PAGE)]].concat()), CallResult::Value(page(61)));
    assert_eq!(last(&[&holes[..], &[free(3 * PAGE)]].concat()), CallResult::Value(page(56)));
    assert_eq!(last(&[&holes[..], &[free(4 * PAGE)]].concat()), CallResult::Value(page(51)));
}

#[test]
fn a_hint_is_rounded_down_and_taken_if_free() {
    let hint = |hint, len| Call::Mmap { hint, len, prot: R, flags: PRIVATE };
    assert_eq!(last(&[hint(page(3) + 9, 9)]), CallResult::Value(page(3)));
    assert_eq!(last(&[map(4..5, R), hint(page(3), 2 * PAGE)]), CallResult::Value(page(62)));
}

#[test]
fn whole_huge_pages_are_aligned_where_private_and_unhinted() {
    let huge = 2 << 20;
    let end = setting().windows[1].end;
    let mmap = |hint, len, flags| last(&[map(63..64, NONE), Call::Mmap { hint, len, prot: R, flags }]);
    assert_eq!(mmap(0, huge, PRIVATE), CallResult::Value(end - 2 * huge));
    assert_eq!(mmap(0, huge, SHARED), CallResult::Value(end - PAGE - huge));
    assert_eq!(mmap(0, huge + PAGE, PRIVATE), CallResult::Value(end - 2 * PAGE - huge));
    assert_eq!(
        mmap(page(63), huge, PRIVATE),
        CallResult::Value(end - PAGE - huge),
        "a hint, though not honoured"
    );
}

#[test]
fn map_32bit_goes_upwards_and_takes_low_hints() {
    let low = setting().windows[0].start;
    let mmap = |hint, len| Call::Mmap { hint, len, prot: R, flags: PRIVATE | MapFlags::LOW };
    assert_eq!(last(&[mmap(0, PAGE)]), CallResult::Value(low));
    assert_eq!(last(&[mmap(0, PAGE), mmap(0, PAGE)]), CallResult::Value(low + PAGE));
    assert_eq!(last(&[mmap(low + 8 * PAGE, PAGE)]), CallResult::Value(low + 8 * PAGE));
    assert_eq!(last(&[mmap(page(0), PAGE)]), CallResult::Value(low), "a hint above 2 GiB");
}

#[test]
fn brk_keeps_a_page_free_above_and_refuses_to_release_nothing() {
    // The heap starts at page 24 of the arena.
    let (brk, heap) = (|n| Call::Brk { addr: page(n) }, page(24));
    assert_eq!(last(&[map(30..31, R), brk(29)]), CallResult::Value(page(29)));
    assert_eq!(last(&[map(30..31, R), brk(30)]), CallResult::Value(heap));
    assert_eq!(last(&[brk(23)]), CallResult::Value(heap));
    assert_eq!(last(&[brk(26), unmap(25..26), brk(25)]), CallResult::Value(page(26)));
    assert_eq!(last(&[brk(26), unmap(25..26), brk(24)]), CallResult::Value(heap));
    let odd = Call::Brk { addr: heap + 5 };
    assert_eq!(last(&[odd, read(24)]), CallResult::Byte(0));
    assert_eq!(last(&[odd, Call::Brk { addr: heap + PAGE }]), CallResult::Value(heap + PAGE));
}
