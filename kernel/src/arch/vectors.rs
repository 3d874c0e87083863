//! The interrupt descriptor table: one for all CPUs.

use super::segments::{EntryStack, TablePointer};
use core::arch::asm;
use core::cell::UnsafeCell;

/// A gate for each vector. Written by the boot CPU before the others start, then only read.
#[repr(C, align(16))]
struct Gates(UnsafeCell<[[u64; 2]; 256]>);

// SAFETY: see `Gates`.
unsafe impl Sync for Gates {}

static GATES: Gates = Gates(UnsafeCell::new([[0; 2]; 256]));

/// Bytes between two stubs of `trap.s`.
const STUB_BYTES: usize = 16;

/// Fills the table. Once, on the boot CPU.
pub fn init() {
    unsafe extern "C" {
        static trap_stubs: u8;
    }
    let stubs = (&raw const trap_stubs).addr();
    // SAFETY: the boot CPU is alone, and no gate is in use.
    let gates = unsafe { &mut *GATES.0.get() };
    for (vector, gate) in gates.iter_mut().enumerate() {
        let is_fatal = matches!(vector, 2 | 8 | 18);
        let stack = if is_fatal { EntryStack::Fatal } else { EntryStack::Ordinary };
        // A breakpoint may be asked for by ring 3.
        let ring = if vector == 3 { 3 } else { 0 };
        *gate = gate_to((stubs + STUB_BYTES * vector) as u64, stack, ring);
    }
}

/// An interrupt gate: interrupts are off behind it. Source: SDM volume 3, figure 6-8.
fn gate_to(entry: u64, stack: EntryStack, ring: u64) -> [u64; 2] {
    let (low, middle) = (entry & 0xffff, entry >> 16 & 0xffff);
    let kind = 0x8e | ring << 5;
    [low | 0x08 << 16 | (stack as u64) << 32 | kind << 40 | middle << 48, entry >> 32]
}

/// Loads the table on this CPU.
pub fn load() {
    let pointer = TablePointer { limit: 256 * 16 - 1, base: GATES.0.get().addr() as u64 };
    // SAFETY: the table is static and filled.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags)) };
}
