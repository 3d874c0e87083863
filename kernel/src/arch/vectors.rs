//! The interrupt descriptor table: one for all CPUs.

use super::segments::{EntryStack, TablePointer};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// A gate for each vector, two words each.
#[repr(C, align(16))]
struct Gates([[AtomicU64; 2]; 256]);

static GATES: Gates = Gates([const { [const { AtomicU64::new(0) }; 2] }; 256]);

/// Bytes between two stubs of `trap.s`.
const STUB_BYTES: usize = 16;

/// Fills the table. Once, on the boot CPU.
pub fn init() {
    unsafe extern "C" {
        static trap_stubs: u8;
    }
    let stubs = (&raw const trap_stubs).addr();
    for (vector, gate) in GATES.0.iter().enumerate() {
        let is_fatal = matches!(vector, 2 | 8 | 18);
        let stack = if is_fatal { EntryStack::Fatal } else { EntryStack::Ordinary };
        // A breakpoint and an overflow may be asked for by ring 3.
        let ring = if matches!(vector, 3 | 4) { 3 } else { 0 };
        let words = gate_to((stubs + STUB_BYTES * vector) as u64, stack, ring);
        gate.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
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
    let pointer = TablePointer { limit: 256 * 16 - 1, base: (&raw const GATES).addr() as u64 };
    assert_ne!(GATES.0[255][0].load(Relaxed), 0, "the vectors have no gates yet");
    // SAFETY: the table is static; the last gate is there, so `init` has filled all of them, with the stubs
    // of `trap.s`.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags)) };
}
