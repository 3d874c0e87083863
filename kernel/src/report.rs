//! Reports that end the machine: of a refused boot, of an unexpected exception, of a panic.
#![forbid(unsafe_code)]

use crate::arch::trap::Frame;
use crate::arch::{MACHINE, console, percpu, registers, space};
use core::fmt::Display;
use core::panic::PanicInfo;
use interleaf::units::{CpuId, VirtAddr};

/// The value for isa-debug-exit that a panic ends with.
const PANIC: u8 = 0x7f;

/// Ends the machine: its configuration at boot is refused.
pub fn refuse(what: &str, why: &dyn Display) -> ! {
    if console::begin_last_words() {
        console::last_words(format_args!("interleaf: {what} is refused: {why}\n"));
    }
    console::exit(PANIC)
}

/// Ends the machine: an exception that the kernel's own code must not raise.
pub fn unexpected(frame: &Frame, address: Option<VirtAddr>) -> ! {
    if console::begin_last_words() {
        console::last_words(format_args!("\nPANIC: the kernel has gone wrong\n"));
        console::last_words(format_args!("{frame}\n"));
        who();
        if let Some(address) = address {
            walk(address);
        }
    }
    console::exit(PANIC)
}

/// Prints the CPU, the thread, and the locks that it holds.
fn who() {
    let thread = percpu::thread();
    let (cpu, index, held) = (percpu::id(), thread.index(), thread.context().held());
    console::last_words(format_args!("  {cpu:?}, thread {index}, "));
    if !cfg!(debug_assertions) {
        console::last_words(format_args!("locks held: only known with debug assertions\n"));
    } else if held == 0 {
        console::last_words(format_args!("no locks held\n"));
    } else {
        console::last_words(format_args!("locks held, by rank:"));
        (0..64)
            .filter(|rank| held >> rank & 1 == 1)
            .for_each(|rank| console::last_words(format_args!(" {rank}")));
        console::last_words(format_args!("\n"));
    }
}

/// Prints why the last faults gave up speculating, and where.
fn events() {
    for (reason, address) in MACHINE.events().last() {
        console::last_words(format_args!("  {} at {address:#x}\n", reason.counter().name()));
    }
}

/// Prints the entries of the tables for an address.
fn walk(address: VirtAddr) {
    const NAMES: [&str; 4] = ["pte", "pmd", "pud", "p4d"];
    console::last_words(format_args!("  {address:?} in the tables that are loaded:\n"));
    space::walk(address, |level, word| {
        console::last_words(format_args!("    {} {word:#018x}\n", NAMES[level]))
    });
}

/// Prints the longest time with interrupts off, of each CPU.
pub fn longest_section(nr_cpus: u32) {
    let ns = |cpu| crate::arch::clock::cycles_to_ns(percpu::of(CpuId(cpu)).longest_off());
    let longest = (0..nr_cpus).map(ns).max().unwrap_or(0);
    crate::println!("interrupts were off for at most {longest} ns");
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if console::begin_last_words() {
        console::last_words(format_args!("\nPANIC: {info}\n"));
        who();
        let (stack, flags) = (registers::stack_pointer(), registers::flags());
        console::last_words(format_args!(
            "  rsp {stack:#018x}  rflags {flags:#x}  {:?}\n",
            registers::root()
        ));
        events();
    }
    console::exit(PANIC)
}
