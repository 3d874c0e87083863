//! Exceptions and refused faults as signals: number, code, address, and the CPU's own words in the context.
//!
//! `exceptions [ROUNDS]`. Each instruction is tried, and skipped by the handler. Not every CPU checks
//! alignment, and the one that QEMU translates raises a general protection where others have a stack
//! exception.
#![cfg_attr(metal, no_std, no_main)]

use interleaf_programs::say::granted;
use interleaf_programs::sys::signal::{SI_KERNEL, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, Told};
use interleaf_programs::sys::trap::{
    DataPage, Odd, skip_traps, try_load, try_load_from_stack, try_odd, try_store, try_store_beyond,
};
use interleaf_programs::sys::{Args, PAGE, Region, Rights};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// SEGV_MAPERR and SEGV_ACCERR.
const NOT_MAPPED: i32 = 1;
const NOT_ALLOWED: i32 = 2;
/// Exceptions of the CPU.
const STACK: u64 = 12;
const PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
/// Bits of a page fault's error code.
const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const USER: u64 = 4;
const FETCH: u64 = 16;

fn begin(args: Args) -> u8 {
    granted("rt_sigaction", skip_traps());
    let rounds = args.number(1, 3);
    for _ in 0..rounds {
        addresses_that_no_table_has();
        the_kernels_half();
        page_faults();
        fetches();
        straddling();
        odd_instructions();
        floating();
    }
    say!("exceptions: {rounds} rounds, every one a signal with its code, address and context");
    GOOD
}

/// A page fault, as it must be told.
fn fault(code: i32, address: usize, error: u64) -> Told {
    let (signal, vector) = (SIGSEGV, PAGE_FAULT);
    Told { signal, code, address, error: error | USER, vector, cr2: address, mask: 0, has_state: true }
}

/// An exception that is no page fault, but for the words of the CPU.
fn expect(what: &str, told: Option<Told>, signal: usize, code: i32, address: usize) -> Told {
    let Some(told) = told else {
        interleaf_programs::say::broken(format_args!("{what}: nothing was raised"))
    };
    let right = (told.signal, told.code, told.address) == (signal, code, address);
    holds!(right && told.has_state && told.mask == 0, "{what}: {told:x?}, not {signal} {code} {address:#x}");
    told
}

/// Not sign extended, with four levels of tables or five.
fn addresses_that_no_table_has() {
    let odd =
        [0xaaaa_aaaa_aaaa_aaaa, 0x8000_0000_0000_0111, 0x7fff_ffff_ffff_ffff, 1 << 56, 0xfeff_ffff_ffff_ffff];
    for address in odd {
        for told in [try_load(address), try_store_beyond(address)] {
            let told = expect("a non-canonical address", told, SIGSEGV, SI_KERNEL, 0);
            holds!((told.vector, told.error) == (PROTECTION, 0), "{address:#x}: {told:x?}");
        }
        let told = try_load_from_stack(address);
        let signal = told.map_or(0, |told| if told.vector == STACK { SIGBUS } else { SIGSEGV });
        expect("a non-canonical address of a stack", told, signal, SI_KERNEL, 0);
    }
}

/// Programs are not told what is mapped there.
fn the_kernels_half() {
    for address in
        [0xffff_8000_0000_0000, 0xffff_ffff_8010_0000, 0xffff_ffff_ff60_1000, 0xffff_ffff_ffff_f000]
    {
        let expected = fault(NOT_MAPPED, address, PRESENT);
        holds!(try_load(address) == Some(expected), "{address:#x}: {:x?}", try_load(address));
        let expected = fault(NOT_MAPPED, address, PRESENT | WRITE);
        holds!(try_store_beyond(address) == Some(expected), "a store to {address:#x}");
    }
}

fn page_faults() {
    let region = granted("mmap", Region::map(5, Rights::WRITE));
    let at = |page: usize| region.start() + page * PAGE;
    granted("munmap", region.part(1, 1).unmap());
    region.write(2, 0, 1);
    granted("mprotect", region.part(2, 2).protect(Rights::READ));
    granted("mprotect", region.part(4, 1).protect(Rights::NONE));
    let cases = [
        ("reading nothing", try_load(at(1) + 5), fault(NOT_MAPPED, at(1) + 5, 0)),
        ("writing nothing", try_store(&region, PAGE + 4095, 1), fault(NOT_MAPPED, at(1) + 4095, WRITE)),
        ("reading page 0", try_load(8), fault(NOT_MAPPED, 8, 0)),
        (
            "writing a page",
            try_store(&region, 2 * PAGE + 1, 1),
            fault(NOT_ALLOWED, at(2) + 1, PRESENT | WRITE),
        ),
        ("writing an absent page", try_store(&region, 3 * PAGE, 1), fault(NOT_ALLOWED, at(3), WRITE)),
        ("reading without rights", try_load(at(4)), fault(NOT_ALLOWED, at(4), 0)),
    ];
    for (what, told, expected) in cases {
        holds!(told == Some(expected), "{what}: {told:x?}, not {expected:x?}");
    }
    granted("munmap", region.unmap());
}

/// A page that may be read is mapped by a fetch before the CPU refuses it: the error says that it is there.
fn fetches() {
    for is_touched in [true, false] {
        let page = granted("mmap", DataPage::map(is_touched));
        let expected = fault(NOT_ALLOWED, page.start(), PRESENT | FETCH);
        let told = page.try_execute();
        holds!(
            told == Some(expected),
            "a fetch from data, touched {is_touched}: {told:x?}, not {expected:x?}"
        );
    }
    let page = granted("mmap", DataPage::missing());
    let told = page.try_execute();
    holds!(told == Some(fault(NOT_MAPPED, page.start(), FETCH)), "a fetch from nothing: {told:x?}");
}

/// An access of two pages is told where it fails, and has stored nothing.
fn straddling() {
    let region = granted("mmap", Region::map(2, Rights::WRITE));
    granted("munmap", region.part(1, 1).unmap());
    let told = try_store(&region, PAGE - 3, 8);
    let second = region.start() + PAGE;
    holds!(told == Some(fault(NOT_MAPPED, second, WRITE)), "a store of two pages: {told:x?}");
    holds!(region.read(0, PAGE / 8 - 1) == 0, "half of a store of two pages was done");
    granted("munmap", region.unmap());
}

fn odd_instructions() {
    // Signal, code, whether there is an address, the CPU's exception.
    let cases = [
        (Odd::Divide, SIGFPE, 1, true, 0),
        (Odd::Undefined, SIGILL, 2, true, 6),
        (Odd::Breakpoint, SIGTRAP, SI_KERNEL, false, 3),
        (Odd::Overflow, SIGSEGV, SI_KERNEL, false, 4),
        (Odd::Privileged, SIGSEGV, SI_KERNEL, false, PROTECTION),
    ];
    for (odd, signal, code, has_address, vector) in cases {
        let (told, at) = try_odd(odd);
        let told = expect("an odd instruction", told, signal, code, if has_address { at } else { 0 });
        holds!((told.vector, told.error) == (vector, 0), "{odd:?}: {told:x?}");
    }
    // Traps are told behind the instruction. QEMU does not translate the debuggers' one.
    for (odd, code) in [(Odd::Step, 2), (Odd::DebugTrap, 1)] {
        let (told, at) = try_odd(odd);
        if odd == Odd::DebugTrap && told.is_some_and(|told| told.signal == SIGILL) {
            continue;
        }
        let told = expect("a debug trap", told, SIGTRAP, code, at + 1);
        holds!((told.vector, told.error) == (1, 0), "{odd:?}: {told:x?}");
    }
    // Where the CPU does not check, the load is done.
    if let (Some(told), _) = try_odd(Odd::Unaligned) {
        let told = expect("a load that is not aligned", Some(told), SIGBUS, 1, 0);
        holds!((told.vector, told.error) == (17, 0), "{told:x?}");
    }
}

/// FPE_FLTDIV is 3, FPE_FLTINV 7. QEMU translates divisions in SSE registers that raise nothing, whatever
/// MXCSR says.
fn floating() {
    for (odd, code, vector) in [(Odd::SseDivide, 3, 19), (Odd::SseInvalid, 7, 19), (Odd::X87Divide, 3, 16)] {
        let (told, at) = try_odd(odd);
        if told.is_none() && odd != Odd::X87Divide {
            continue;
        }
        let told = expect("an exception of floating point", told, SIGFPE, code, at);
        holds!((told.vector, told.error) == (vector, 0), "{odd:?}: {told:x?}");
    }
}
