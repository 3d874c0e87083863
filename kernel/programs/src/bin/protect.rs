//! Rights: a refused access ends in SIGSEGV at the right address, and works once it is allowed again.
//!
//! `protect [ROUNDS]`. The handler grants the missing right and returns, and the instruction succeeds at
//! its second try. Contents survive every change. `protect die` makes a refused access without a handler, and
//! must not return.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use interleaf_programs::dice::mix;
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, CodePage, ENOMEM, ENOSYS, PAGE, Region, Rights, SegFault, Shared};
use interleaf_programs::{BROKEN, GOOD, holds, program, say};

program!(begin);

/// The handler's action at the next fault, and the fault that it saw. One thread only: Relaxed.
static REPAIR: AtomicUsize = AtomicUsize::new(NONE);
static FAULTS: AtomicUsize = AtomicUsize::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static MAPPED: AtomicBool = AtomicBool::new(false);
static REGION: Shared = Shared::new();

/// Repairs: none (a fault is an error), the right to read, to write, to execute, or new pages.
const NONE: usize = 0;
const TO_READ: usize = 1;
const TO_WRITE: usize = 2;
const TO_EXECUTE: usize = 3;
const NEW_PAGE: usize = 4;

/// A word that is written.
const WORD: u64 = 0xcccc_cccc_cccc_ccc3;
/// Pages of the region.
const PAGES: usize = 16;

fn begin(args: Args) -> u8 {
    let region = granted("mmap", Region::map(PAGES, Rights::WRITE));
    if args.word(1) == Some("die") {
        granted("mprotect", region.protect(Rights::NONE));
        say!("protect: reading what may not be read");
        region.read(0, 0);
        say!("BROKEN: it was read");
        return BROKEN;
    }
    REGION.set(region);
    contents_survive(&region);
    match sys::on_segfault(repair) {
        Err(ENOSYS) => say!("protect: this kernel has no handlers of signals; refusals were not tried"),
        other => {
            granted("rt_sigaction", other);
            for page in (0..args.number(1, 50)).map(|round| round % PAGES) {
                refusals(&region, page);
                executed(page);
            }
        }
    }
    holes(&region);
    say!("protect: {} refused accesses, each at its address, each repaired", FAULTS.load(Relaxed));
    GOOD
}

fn contents_survive(region: &Region) {
    (0..PAGES).for_each(|page| region.write(page, page, mix(page as u64)));
    for rights in [Rights::READ, Rights::NONE, Rights::WRITE, Rights::NONE, Rights::EXECUTE, Rights::READ] {
        granted("mprotect", region.part(3, 9).protect(rights));
    }
    for page in 0..PAGES {
        holds!(region.read(page, page) == mix(page as u64), "page {page} lost its contents to mprotect");
    }
    granted("mprotect", region.protect(Rights::WRITE));
    for page in 0..PAGES {
        region.write(page, page, 0);
        holds!(region.read(page, page) == 0, "page {page} cannot be written again");
    }
}

/// The handler: notes the refused access and repairs it as `REPAIR` says.
fn repair(fault: SegFault) {
    FAULTS.fetch_add(1, Relaxed);
    ADDRESS.store(fault.address, Relaxed);
    MAPPED.store(fault.mapped, Relaxed);
    let how = REPAIR.swap(NONE, Relaxed);
    if let Some(code) = CodePage::at(fault.address) {
        holds!(how == TO_WRITE || how == TO_EXECUTE, "an unexpected fault at {:#x}", fault.address);
        let rights = if how == TO_WRITE { Rights::WRITE } else { Rights::EXECUTE };
        return granted("the repair", code.protect(rights));
    }
    let region = REGION.get();
    let first = fault.address.wrapping_sub(region.start()) / PAGE;
    holds!(how != NONE && first < PAGES, "an unexpected fault at {:#x}", fault.address);
    let page = region.part(first, 1);
    let repaired = match how {
        TO_READ => page.protect(Rights::READ),
        TO_WRITE => page.protect(Rights::WRITE),
        TO_EXECUTE => page.protect(Rights::EXECUTE),
        _ => page.replace(Rights::WRITE),
    };
    granted("the repair", repaired);
}

/// Performs an access that must be refused once, repaired, and then succeed.
fn refused(what: &str, how: usize, address: usize, mapped: bool, act: impl FnOnce()) {
    let before = FAULTS.load(Relaxed);
    REPAIR.store(how, Relaxed);
    act();
    let faults = FAULTS.load(Relaxed) - before;
    holds!(faults == 1, "{what}: refused {faults} times instead of once");
    let seen = ADDRESS.load(Relaxed);
    holds!(seen == address, "{what}: refused at {seen:#x} instead of {address:#x}");
    holds!(MAPPED.load(Relaxed) == mapped, "{what}: mapped should have been {mapped}");
}

/// A page of code: it is executed once that is allowed, and written again once that is.
fn executed(page: usize) {
    let (code, word) = (CodePage::nth(page), page * 3);
    code.write(word);
    refused("executing what may be written", TO_EXECUTE, code.start(), true, || code.execute());
    code.execute();
    refused("writing code", TO_WRITE, code.start() + word * 8, true, || code.write(word));
    granted("mprotect", code.protect(Rights::READ));
    refused("executing what may be read", TO_EXECUTE, code.start(), true, || code.execute());
    granted("mprotect", code.protect(Rights::WRITE));
}

fn refusals(region: &Region, page: usize) {
    let (one, word) = (region.part(page, 1), page * 3);
    let address = one.start() + word * 8;
    one.write(0, word, WORD);
    granted("mprotect", one.protect(Rights::READ));
    refused("writing what may be read", TO_WRITE, address, true, || one.write(0, word, mix(word as u64)));
    granted("mprotect", one.protect(Rights::NONE));
    refused("reading what may not be", TO_READ, address, true, || {
        holds!(one.read(0, word) == mix(word as u64), "the write after the repair was lost");
    });
    refused("writing after the repair to read", TO_WRITE, one.start(), true, || one.write(0, 0, WORD));
    granted("mprotect", one.protect(Rights::EXECUTE));
    refused("writing what may be executed", TO_WRITE, address, true, || one.write(0, word, 1));
    granted("munmap", one.unmap());
    refused("reading what is not mapped", NEW_PAGE, address, false, || {
        holds!(one.read(0, word) == 0, "a new page is not zero");
    });
    granted("munmap", one.unmap());
    refused("writing what is not mapped", NEW_PAGE, address, false, || one.write(0, word, 2));
    holds!(one.read(0, word) == 2, "the write after the repair was lost");
    granted("munmap", one.unmap());
    granted("mmap", one.replace(Rights::NONE));
    refused("reading a new page without rights", TO_READ, address, true, || {
        holds!(one.read(0, word) == 0, "a new page is not zero");
    });
    granted("mprotect", one.protect(Rights::WRITE));
}

/// Changing rights across a hole returns ENOMEM; pages before the hole are changed.
fn holes(region: &Region) {
    granted("munmap", region.part(8, 1).unmap());
    holds!(region.protect(Rights::READ) == Err(ENOMEM), "rights were changed across a hole");
    holds!(region.part(0, 8).protect(Rights::WRITE) == Ok(()), "rights before a hole");
    granted("munmap", region.unmap());
    holds!(region.part(0, 1).protect(Rights::READ) == Err(ENOMEM), "rights of what is not mapped");
}
