//! Every word of mmap, mprotect and madvise, also where it says what no flag of theirs does: what is refused,
//! what is not looked at, and how wide each is read. (docs/design/arguments.md)

use crate::world::{PRIVATE, R, RW, SHARED, error, last, map, outcome, page};
use interleaf_check::calls::{Call, CallResult, Errno, MapFlags, PAGE, number};

const MINUS_ONE: u64 = u64::MAX;
const BEYOND_32_BITS: u64 = 1 << 40;

fn words(number: u64, words: [u64; 6]) -> Call {
    Call::Words { number, words }
}

fn mmap(hint: u64, len: u64, prot: u64, flags: u64, fd: u64, offset: u64) -> CallResult {
    last(&[words(number::MMAP, [hint, len, prot, flags, fd, offset])])
}

/// Whether the call maps something.
fn maps(prot: u64, flags: u64, fd: u64, offset: u64) -> bool {
    matches!(mmap(0, PAGE, prot, flags, fd, offset), CallResult::Value(_))
}

fn bits(flags: MapFlags) -> u64 {
    flags.bits().into()
}

#[test]
fn an_offset_inside_of_a_page_is_refused_before_anything_else() {
    let [private, shared] = [PRIVATE, SHARED].map(bits);
    for offset in [1, 0x800, PAGE + 1, MINUS_ONE] {
        assert_eq!(mmap(0, PAGE, 3, private, MINUS_ONE, offset), error(Errno::EINVAL));
        assert_eq!(mmap(0, PAGE, 3, shared, MINUS_ONE, offset), error(Errno::EINVAL));
        assert_eq!(mmap(0, MINUS_ONE, 3, private, MINUS_ONE, offset), error(Errno::EINVAL), "not ENOMEM");
    }
    assert!(maps(3, private, MINUS_ONE, 5 * PAGE) && maps(3, shared, MINUS_ONE, 5 * PAGE));
    assert!(maps(3, private, MINUS_ONE, MINUS_ONE - PAGE + 1), "it is never added to");
}

#[test]
fn the_file_of_anonymous_memory_is_not_looked_at() {
    for fd in [77, 0, MINUS_ONE, BEYOND_32_BITS] {
        assert!(maps(3, bits(PRIVATE), fd, 0) && maps(3, bits(SHARED), fd, 0), "{fd:#x}");
    }
}

#[test]
fn rights_of_mmap_that_there_are_not_are_not_looked_at() {
    for more in [8, 0x10, 0xffff_fff8, 0x100_0000, 0x300_0000, BEYOND_32_BITS] {
        let calls = [words(number::MMAP, [page(0), PAGE, 3 | more, 0x32, MINUS_ONE, 0])];
        assert_eq!(outcome(&calls).map[0].prot, RW, "{more:#x}");
    }
}

#[test]
fn flags_of_mmap_that_there_are_not_are_not_looked_at() {
    // MAP_UNINITIALIZED, MAP_DENYWRITE, MAP_EXECUTABLE, MAP_SYNC, and bits without a name.
    for more in [0x400_0000, 0x800, 0x1000, 0x8_0000, 0x200, 0x8000_0000, BEYOND_32_BITS] {
        assert!(maps(3, bits(PRIVATE) | more, MINUS_ONE, 0), "{more:#x}");
    }
    for kind in [0, 3, 15] {
        let flags = bits(MapFlags::ANONYMOUS) | kind;
        assert_eq!(mmap(0, PAGE, 3, flags, MINUS_ONE, 0), error(Errno::EINVAL), "type {kind}");
    }
}

#[test]
fn pages_are_populated_unless_the_call_may_not_block() {
    let resident = |flags: MapFlags| {
        let mmap = Call::Mmap { hint: page(0), len: 2 * PAGE, prot: RW, flags: flags | MapFlags::FIXED };
        outcome(&[mmap]).pages.len()
    };
    assert_eq!(resident(PRIVATE | MapFlags::POPULATE), 2);
    assert_eq!(resident(PRIVATE | MapFlags::POPULATE | MapFlags::NONBLOCK), 0);
    assert_eq!(resident(PRIVATE | MapFlags::NONBLOCK), 0);
}

#[test]
fn nothing_is_placed_below_4_gib_that_is_to_lie_above() {
    let whole = interleaf_check::setting::Setting::default().windows;
    let fill = |nr: usize| Call::Mmap {
        hint: whole[nr].start,
        len: whole[nr].end - whole[nr].start,
        prot: R,
        flags: PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
    };
    let ask = |hint, flags| Call::Mmap { hint, len: PAGE, prot: R, flags: PRIVATE | flags };
    let (low, above) = (whole[0].end - PAGE, MapFlags::ABOVE4G);
    let highest_low = CallResult::Value(low);
    assert_eq!(last(&[fill(1), ask(0, MapFlags::empty())]), highest_low);
    assert_eq!(last(&[fill(1), ask(0, above)]), error(Errno::ENOMEM));
    assert_eq!(last(&[fill(1), ask(low, above)]), highest_low, "a hint is granted wherever it lies");
    let lowest = CallResult::Value(whole[0].start);
    assert_eq!(last(&[ask(0, above | MapFlags::LOW)]), lowest, "MAP_32BIT comes before it");
    assert_eq!(last(&[ask(low, above | MapFlags::LOW)]), highest_low);
    assert_eq!(last(&[ask(low, above | MapFlags::FIXED)]), highest_low);
    assert_eq!(outcome(&[fill(1), ask(0, above)]).map.len(), 1);
}

#[test]
fn rights_of_mprotect_are_read_as_wide_as_a_register() {
    let mprotect = |prot| last(&[map(0..1, RW), words(number::MPROTECT, [page(0), PAGE, prot, 7, 7, 7])]);
    assert_eq!(mprotect(1), CallResult::Value(0));
    for prot in [BEYOND_32_BITS, BEYOND_32_BITS | 1, 1 << 32, 1 << 63, 0x10] {
        assert_eq!(mprotect(prot), error(Errno::EINVAL), "{prot:#x}");
    }
    let empty = words(number::MPROTECT, [page(0), 0, BEYOND_32_BITS, 0, 0, 0]);
    assert_eq!(last(&[empty]), CallResult::Value(0), "nothing to do comes before rights");
}

#[test]
fn advice_is_read_as_an_int() {
    let madvise = |advice| last(&[map(0..1, RW), words(number::MADVISE, [page(0), PAGE, advice, 7, 7, 7])]);
    assert_eq!(madvise(BEYOND_32_BITS | 4), CallResult::Value(0));
    assert_eq!(madvise(BEYOND_32_BITS | 99), error(Errno::EINVAL));
    // MADV_DONTNEED_LOCKED drops what is not locked too.
    assert_eq!(
        outcome(&[
            map(0..1, RW),
            crate::world::write(0),
            words(number::MADVISE, [page(0), PAGE, 24, 0, 0, 0])
        ])
        .pages,
        []
    );
}
