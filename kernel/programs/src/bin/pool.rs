//! Huge pages of the hugetlb pool: what is set aside is there, a fork shares what is shared, a page that
//! there is not is a bus error, and the kernel's counts say so.
//!
//! `pool [PAGES]`. With a number the machine must have a pool of so many huge pages of 2 MiB that are not in
//! use. Without one it does what the pool has pages for: nothing, if it has none.
#![cfg_attr(metal, no_std, no_main)]

use interleaf_programs::say::granted;
use interleaf_programs::sys::{
    self, Args, EINVAL, ENOMEM, Forked, Region, Rights, Status, exit_group, number_in, read_file,
};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Base pages of a huge one.
const HUGE: usize = 512;
/// Huge pages that are mapped at once.
const NR: usize = 3;
const SIGBUS: Status = 7;
/// Codes of children.
const SEEN: u8 = 40;
const NOT_SEEN: u8 = 41;

/// HugePages_Total, Free and Rsvd of /proc/meminfo.
fn counts() -> [u64; 3] {
    let mut text = [0; 16 << 10];
    let text = granted("/proc/meminfo", read_file(c"/proc/meminfo", &mut text));
    ["HugePages_Total", "HugePages_Free", "HugePages_Rsvd"].map(|name| number_in(text, name).unwrap_or(0))
}

fn must_have(what: &str, counted: [u64; 3]) {
    let found = counts();
    holds!(found == counted, "{what}: HugePages_ Total, Free, Rsvd are {found:?}, not {counted:?}");
}

fn begin(args: Args) -> u8 {
    let before = counts();
    let [total, free, reserved] = before;
    if args.word(1).is_some() {
        let asked = args.number(1, 0) as u64;
        holds!(before == [asked, asked, 0], "the pool of {asked} huge pages has {before:?}");
    }
    if free < reserved + NR as u64 {
        holds!(args.word(1).is_none(), "{NR} huge pages are needed");
        let more = Region::map_huge_pool((free - reserved + 1) as usize * HUGE, false, true);
        holds!(more.is_err_and(|error| error == ENOMEM), "more is set aside than there is: {more:?}");
        say!("pool: {total} huge pages, of which too few are free: refused as Linux does");
        return GOOD;
    }
    set_aside(before);
    shared(before);
    bus_errors(before);
    must_have("at the end", before);
    say!("pool: of {total} huge pages each was there when it was touched, and all came back");
    GOOD
}

/// Private memory: set aside by mmap, taken by the first touch, back with munmap.
fn set_aside([total, free, reserved]: [u64; 3]) {
    let nr = NR as u64;
    let region = granted("mmap", Region::map_huge_pool(NR * HUGE, false, true));
    holds!(region.start().is_multiple_of(HUGE * sys::PAGE), "it begins at {:#x}", region.start());
    must_have("set aside", [total, free, reserved + nr]);
    for page in (0..NR * HUGE).step_by(HUGE / 2) {
        holds!(region.read(page, page % 512) == 0, "page {page} is not zero before any write");
        region.write(page, 3, !(page as u64));
    }
    must_have("touched", [total, free - nr, reserved]);
    holds!(region.part(1, HUGE).unmap() == Err(EINVAL), "munmap cuts a huge page");
    holds!(region.part(0, 1).protect(Rights::READ) == Err(EINVAL), "mprotect cuts a huge page");
    granted("madvise", region.part(HUGE, HUGE).dont_need());
    must_have("dropped", [total, free - nr + 1, reserved + 1]);
    holds!(region.read(HUGE, 3) == 0, "what was dropped is there");
    for page in (0..HUGE).step_by(HUGE / 2) {
        holds!(region.read(page, 3) == !(page as u64), "page {page} is not what was written");
    }
    granted("munmap", region.unmap());
    must_have("unmapped", [total, free, reserved]);
}

/// How a child ends that goes on with `body`.
fn child(body: impl FnOnce() -> u8) -> Status {
    match granted("fork", sys::fork()) {
        Forked::Child => exit_group(body()),
        Forked::Parent(child) => granted("wait4", sys::wait(Some(child))).1,
    }
}

/// Shared memory: parent and child see each other's stores, and the pages stay as long as one of them.
fn shared([total, free, reserved]: [u64; 3]) {
    let region = granted("mmap", Region::map_huge_pool(2 * HUGE, true, true));
    region.write(1, 0, 11);
    must_have("one page of the shared memory is touched", [total, free - 1, reserved + 1]);
    let ended = child(|| {
        let is_there = region.read(1, 0) == 11;
        region.write(1, 0, 12);
        region.write(HUGE + 5, 1, 13);
        let is_counted = counts() == [total, free - 2, reserved];
        if is_there && is_counted { SEEN } else { NOT_SEEN }
    });
    holds!(ended == Status::from(SEEN) << 8, "the child of shared memory ends with {ended:#x}");
    must_have("the child's page", [total, free - 2, reserved]);
    holds!((region.read(1, 0), region.read(HUGE + 5, 1)) == (12, 13), "the child's stores are lost");
    granted("madvise", region.dont_need());
    must_have("only entries are dropped", [total, free - 2, reserved]);
    holds!(region.read(HUGE + 5, 1) == 13, "shared memory was dropped");
    granted("munmap", region.part(0, HUGE).unmap());
    must_have("a part is mapped still", [total, free - 2, reserved]);
    granted("munmap", region.part(HUGE, HUGE).unmap());
    must_have("shared memory is gone", [total, free, reserved]);
}

/// Where nothing is set aside, a page that there is not is a bus error.
fn bus_errors([total, free, reserved]: [u64; 3]) {
    let available = (free - reserved) as usize;
    for is_shared in [false, true] {
        let all = granted("mmap", Region::map_huge_pool(available * HUGE, false, true));
        must_have("all are set aside", [total, free, free]);
        let more = Region::map_huge_pool(HUGE, is_shared, true);
        holds!(more.is_err_and(|error| error == ENOMEM), "more is set aside than there is: {more:?}");
        let region = granted("mmap", Region::map_huge_pool(HUGE, is_shared, false));
        let ended = child(|| {
            region.write(0, 0, 1);
            NOT_SEEN
        });
        holds!(ended & 0x7f == SIGBUS, "a store to a page that there is not: {ended:#x}");
        granted("munmap", all.unmap());
        let ended = child(|| {
            region.write(0, 0, 1);
            SEEN
        });
        holds!(ended == Status::from(SEEN) << 8, "a store to a page that is available: {ended:#x}");
        granted("munmap", region.unmap());
        must_have("after the bus error", [total, free, reserved]);
    }
}
