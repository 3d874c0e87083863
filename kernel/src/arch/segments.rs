//! Segments, which 64-bit code hardly uses, and the stacks on which vectors enter.
//!
//! Sources: Intel SDM volume 3, sections 3.4.5 (descriptors) and 8.7 (task state).

use super::registers::{self, FMASK, LSTAR, STAR};
use super::space::GuardedStack;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use interleaf::units::CpuId;

/// Kernel code and data.
const KERNEL_CODE: u16 = 0x08;
const KERNEL_DATA: u16 = 0x10;
/// User data, with ring 3. The order is `sysret`'s: data before code.
pub const USER_DATA: u16 = 0x18 | 3;
/// User code, with ring 3.
pub const USER_CODE: u16 = 0x20 | 3;
const TASK: u16 = 0x28;

/// Interrupts, direction, trap, alignment check, nested task: off in system calls.
const SYSCALL_CLEARS: u64 = 0x4_4700;

/// The stack on which a vector enters, as a number of the task state.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum EntryStack {
    /// Of vectors whose stub moves to another stack at once.
    Ordinary = 1,
    /// Of vectors that may come while that stack is in use; they do not return.
    Fatal = 2,
}

/// A CPU's descriptors and task state: the CPU reads them, and sets a bit of the task's descriptor.
pub struct Segments {
    descriptors: [AtomicU64; 7],
    task: [AtomicU32; 26],
}

/// The stacks of every CPU, each above a page that is never mapped.
static STACKS: [[GuardedStack<4096>; 2]; super::percpu::MAX_CPUS] =
    [const { [const { GuardedStack::new() }; 2] }; super::percpu::MAX_CPUS];

/// Whether the page is a guard below one of these stacks.
pub fn is_guard(page: usize) -> bool {
    STACKS.iter().flatten().any(|stack| stack.guard() == page)
}

/// The operand of `lgdt` and `lidt`.
#[repr(C, packed)]
pub struct TablePointer {
    /// Bytes less one.
    pub limit: u16,
    /// Where.
    pub base: u64,
}

impl Segments {
    pub const fn new() -> Self {
        Self { descriptors: [const { AtomicU64::new(0) }; 7], task: [const { AtomicU32::new(0) }; 26] }
    }

    /// Loads them on the CPU with this number, which runs this.
    ///
    /// # Safety
    /// No other CPU is given these, or the stacks of the number.
    pub unsafe fn load(&'static self, cpu: CpuId) {
        self.fill_task(&STACKS[cpu.index()]);
        let table = descriptor_table((&raw const self.task).addr() as u64);
        self.descriptors.iter().zip(table).for_each(|(to, word)| to.store(word, Relaxed));
        let pointer = TablePointer { limit: 7 * 8 - 1, base: (&raw const self.descriptors).addr() as u64 };
        // SAFETY: the table, which was filled above and is static, has kernel code at 8 and data at 16, as
        // the boot table had, and a task at 0x28, whose stacks no other CPU uses. The far return goes to the
        // next instruction. GS is left alone: loading it would clear its base.
        unsafe {
            asm!("lgdt [{pointer}]", "push {code}", "lea {scratch}, [rip + 2f]", "push {scratch}",
                 "retfq", "2:",
                 "mov ss, {data:e}", "ltr {task:x}",
                 pointer = in(reg) &raw const pointer, code = const KERNEL_CODE,
                 data = in(reg) u32::from(KERNEL_DATA),
                 task = in(reg) TASK, scratch = out(reg) _);
        }
    }

    /// Source: SDM, figure 8-11: interrupt stacks from byte 36 on; the I/O map's offset at byte 102, beyond
    /// the limit: none.
    fn fill_task(&self, stacks: &[GuardedStack<4096>; 2]) {
        for (number, stack) in stacks.iter().enumerate() {
            let (top, word) = (stack.top() as u64, 9 + 2 * number);
            self.task[word].store(top as u32, Relaxed);
            self.task[word + 1].store((top >> 32) as u32, Relaxed);
        }
        self.task[25].store(104 << 16, Relaxed);
    }
}

fn descriptor_table(task: u64) -> [u64; 7] {
    let task_low = 103 | (task & 0xff_ffff) << 16 | 0x89 << 40 | (task >> 24 & 0xff) << 56;
    [
        0,
        0x00af_9a00_0000_ffff,
        0x00cf_9200_0000_ffff,
        0x00cf_f200_0000_ffff,
        0x00af_fa00_0000_ffff,
        task_low,
        task >> 32,
    ]
}

/// Lets this CPU take system calls.
pub fn enable_syscalls() {
    unsafe extern "C" {
        fn syscall_entry();
    }
    let entry = (syscall_entry as *const ()).addr() as u64;
    // SAFETY: the selectors are those of `descriptor_table`; the entry follows the instruction's rules
    // (`trap.s`).
    unsafe {
        registers::write_msr(STAR, u64::from(KERNEL_CODE) << 32 | u64::from(KERNEL_DATA) << 48);
        registers::write_msr(LSTAR, entry);
        registers::write_msr(FMASK, SYSCALL_CLEARS);
    }
}
