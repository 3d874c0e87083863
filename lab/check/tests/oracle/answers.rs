//! Which error comes first, and what a call that fails halfway leaves.

use crate::world::{
    NONE, PRIVATE, R, RW, SHARED, advise, error, last, lines, map, map_as, mincore, page, protect,
};
use crate::world::{outcome, setting, unmap, write};
use interleaf_check::calls::{Call, CallResult, Errno, MapFlags, PAGE, Prot, advice};

const FIXED: MapFlags = MapFlags::FIXED;

fn mmap(hint: u64, len: u64, flags: MapFlags) -> CallResult {
    last(&[Call::Mmap { hint, len, prot: RW, flags }])
}

#[test]
fn mmap_checks_length_then_address_then_kind() {
    let end = setting().task_end;
    let fixed = PRIVATE | FIXED;
    let no_kind = MapFlags::ANONYMOUS | FIXED;
    assert_eq!(mmap(1, 0, MapFlags::PRIVATE), error(Errno::EBADF), "no file before anything else");
    assert_eq!(mmap(1, 0, fixed), error(Errno::EINVAL));
    assert_eq!(mmap(1, u64::MAX, fixed), error(Errno::ENOMEM), "rounds up to nothing");
    assert_eq!(mmap(1, end + 1, fixed), error(Errno::ENOMEM));
    assert_eq!(mmap(end + 1, PAGE, fixed), error(Errno::ENOMEM), "too high before unaligned");
    assert_eq!(mmap(1, PAGE, fixed), error(Errno::EINVAL), "unaligned before too low");
    assert_eq!(mmap(0, PAGE, no_kind), error(Errno::EPERM), "too low before senseless kind");
    assert_eq!(mmap(page(0), PAGE, no_kind), error(Errno::EINVAL));
    assert_eq!(mmap(page(0), PAGE, PRIVATE | SHARED | FIXED), error(Errno::EINVAL));
    let taken = MapFlags::ANONYMOUS | MapFlags::FIXED_NOREPLACE;
    let again = Call::Mmap { hint: page(0), len: PAGE, prot: RW, flags: taken };
    assert_eq!(last(&[map(0..1, RW), again]), error(Errno::EEXIST), "taken before senseless kind");
}

#[test]
fn munmap_refuses_what_is_not_a_range_and_takes_holes() {
    let end = setting().task_end;
    let munmap = |addr, len| last(&[Call::Munmap { addr, len }]);
    assert_eq!(munmap(page(0), 0), error(Errno::EINVAL));
    assert_eq!(munmap(page(0) + 1, PAGE), error(Errno::EINVAL));
    assert_eq!(munmap(page(0), u64::MAX), error(Errno::EINVAL));
    assert_eq!(munmap(end + PAGE, PAGE), error(Errno::EINVAL));
    assert_eq!(munmap(page(0), PAGE), CallResult::Value(0));
    assert_eq!(lines(&[map(0..1, RW), map(3..6, RW), unmap(0..4)]), [4..6]);
}

#[test]
fn mprotect_stops_at_a_hole_and_keeps_what_it_changed() {
    let holey = [map(0..2, RW), map(3..4, RW), protect(1..4, R)];
    assert_eq!(last(&holey), error(Errno::ENOMEM));
    assert_eq!(lines(&holey), [0..1, 1..2, 3..4]);
    assert_eq!(outcome(&holey).map[1].prot, R);
    assert_eq!(outcome(&holey).map[2].prot, RW);
    let starts_in_hole = [map(1..2, RW), protect(0..2, R)];
    assert_eq!(last(&starts_in_hole), error(Errno::ENOMEM));
    assert_eq!(outcome(&starts_in_hole).map[0].prot, RW);
}

#[test]
fn mprotect_checks_alignment_then_length_then_rights() {
    let senseless = Prot::from_bits_retain(16);
    let mprotect = |addr, len, prot| last(&[Call::Mprotect { addr, len, prot }]);
    assert_eq!(mprotect(page(0) + 1, 0, senseless), error(Errno::EINVAL));
    assert_eq!(
        mprotect(page(0), 0, senseless),
        CallResult::Value(0),
        "nothing to do comes before senseless rights"
    );
    assert_eq!(
        mprotect(page(0), u64::MAX, senseless),
        error(Errno::ENOMEM),
        "so does a length without pages"
    );
    assert_eq!(
        mprotect(page(0), page(0).wrapping_neg(), senseless),
        error(Errno::ENOMEM),
        "and an end past the end"
    );
    assert_eq!(mprotect(page(0), PAGE, senseless), error(Errno::EINVAL));
    assert_eq!(mprotect(page(0), PAGE, R), error(Errno::ENOMEM));
}

#[test]
fn rights_that_are_there_already_merge_nothing() {
    // A refused mapping has split what it would have replaced; only a real change joins the halves.
    let (len, memory) = (4 * PAGE, setting().memory_pages * PAGE);
    let start = setting().windows[1].start;
    let fixed = |hint, len, flags| Call::Mmap { hint, len, prot: RW, flags: flags | FIXED };
    let whole = |prot| Call::Mprotect { addr: start, len, prot };
    let split = [fixed(start, len, PRIVATE), fixed(start + 2 * PAGE, memory + 3 * PAGE, PRIVATE)];
    assert_eq!(last(&split), error(Errno::ENOMEM));
    assert_eq!(outcome(&split).map.len(), 2);
    assert_eq!(outcome(&[&split[..], &[whole(RW)]].concat()).map.len(), 2);
    assert_eq!(outcome(&[&split[..], &[whole(R)]].concat()).map.len(), 1);
    let gap = [split[0], fixed(start + 2 * PAGE, memory + 3 * PAGE, SHARED)];
    assert_eq!(last(&gap), error(Errno::ENOMEM));
    assert_eq!(outcome(&gap).map[0].end, start + 2 * PAGE, "a shared one is refused when the old is gone");
}

#[test]
fn madvise_passes_over_holes_and_says_so_at_the_end() {
    let holey = [map(1..2, RW), write(1), map(3..4, RW), write(3), advise(0..5, advice::DONTNEED)];
    assert_eq!(last(&holey), error(Errno::ENOMEM));
    assert!(outcome(&holey).pages.is_empty());
    let free = [map_as(1..2, RW, SHARED), map(2..3, RW), write(2), advise(0..3, advice::FREE)];
    assert_eq!(last(&free), error(Errno::EINVAL), "an error of a mapping stops it");
}

#[test]
fn madvise_checks_advice_then_alignment_then_length() {
    let madvise = |addr, len, advice| last(&[Call::Madvise { addr, len, advice }]);
    assert_eq!(madvise(page(0), 0, 99), error(Errno::EINVAL));
    assert_eq!(madvise(page(0) + 1, 0, advice::DONTNEED), error(Errno::EINVAL));
    assert_eq!(madvise(page(0), u64::MAX, advice::DONTNEED), error(Errno::EINVAL));
    assert_eq!(madvise(page(0), 0, advice::DONTNEED), CallResult::Value(0));
    assert_eq!(madvise(page(0), PAGE, advice::DONTNEED), error(Errno::ENOMEM));
}

#[test]
fn populating_stops_at_holes_and_missing_rights() {
    let holey = [map(0..1, RW), advise(0..2, advice::POPULATE_WRITE)];
    assert_eq!(last(&holey), error(Errno::ENOMEM));
    assert_eq!(outcome(&holey).pages.len(), 1);
    let refused = [map(0..1, RW), map(1..2, R), advise(0..2, advice::POPULATE_WRITE)];
    assert_eq!(last(&refused), error(Errno::EINVAL));
    assert_eq!(outcome(&refused).pages.len(), 1);
    assert_eq!(last(&[map(0..1, NONE), advise(0..1, advice::POPULATE_READ)]), error(Errno::EINVAL));
    assert_eq!(last(&[map(0..1, Prot::WRITE), advise(0..1, advice::POPULATE_READ)]), error(Errno::EINVAL));
}

#[test]
fn mincore_tells_what_it_saw_before_a_hole() {
    let holey = [map(0..2, RW), write(1), mincore(0..4)];
    assert_eq!(last(&holey), CallResult::Resident(vec![0, 1], Some(Errno::ENOMEM)));
    let beyond = Call::Mincore { addr: setting().task_end - PAGE, len: 2 * PAGE };
    assert_eq!(last(&[beyond]), error(Errno::ENOMEM));
    assert_eq!(last(&[Call::Mincore { addr: page(0) + 1, len: 0 }]), error(Errno::EINVAL));
    assert_eq!(last(&[mincore(0..0)]), CallResult::Resident(vec![], None));
}
