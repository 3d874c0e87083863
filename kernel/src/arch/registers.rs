//! Control and model-specific registers, and the CPU's features.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use interleaf::units::{Pfn, PhysAddr, VirtAddr};

/// EFER, STAR, LSTAR, FMASK: system calls.
pub const STAR: u32 = 0xc000_0081;
/// Where `syscall` enters.
pub const LSTAR: u32 = 0xc000_0082;
/// The flag that says that interrupts are on.
pub const INTERRUPTS_ON: usize = 1 << 9;

/// The flags that `syscall` clears.
pub const FMASK: u32 = 0xc000_0084;
/// Base of FS: a program's thread-local data.
pub const FS_BASE: u32 = 0xc000_0100;
/// Base of GS, in use.
pub const GS_BASE: u32 = 0xc000_0101;
/// Base of GS after `swapgs`.
pub const KERNEL_GS_BASE: u32 = 0xc000_0102;

/// The interrupt flag in rflags.
pub const INTERRUPT_FLAG: usize = 1 << 9;

const CR4_SMEP: u64 = 1 << 20;
const CR4_SMAP: u64 = 1 << 21;

/// What this kernel uses if the CPU has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The kernel cannot execute user memory.
    pub smep: bool,
    /// The kernel accesses user memory only in marked code (SMAP).
    pub smap: bool,
    /// Pages of 1 GiB.
    pub giant_pages: bool,
}

impl Features {
    /// Reads the features from the CPU.
    pub fn of_this_cpu() -> Self {
        let most = __cpuid_count(0, 0).eax;
        let seven = if most >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        let extended = __cpuid_count(0x8000_0001, 0).edx;
        let bit = |word: u32, bit: u32| word >> bit & 1 == 1;
        Self { smep: bit(seven, 7), smap: bit(seven, 20), giant_pages: bit(extended, 26) }
    }

    /// Turns on the protection of the kernel against its own accesses to user memory. User memory is not
    /// mapped yet, or not touched.
    pub fn enable(self) {
        let mut cr4: u64;
        // SAFETY: reading CR4 changes nothing.
        unsafe { asm!("mov {}, cr4", out(reg) cr4, options(nomem, nostack, preserves_flags)) };
        cr4 |= if self.smep { CR4_SMEP } else { 0 } | if self.smap { CR4_SMAP } else { 0 };
        // SAFETY: only the two bits are added, and the CPU has them. They make accesses to user memory fault,
        // and change nothing else.
        unsafe { asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags)) };
    }
}

/// Writes a model-specific register.
///
/// # Safety
/// The register exists, and its change keeps the assumptions of compiled code.
pub unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
             options(nostack, preserves_flags));
    }
}

/// The address of the last page fault. Read before anything can fault again.
pub fn fault_address() -> VirtAddr {
    let address;
    // SAFETY: reading CR2 changes nothing.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    VirtAddr(address)
}

/// Why the last debug trap was raised: DR6, which is cleared. Interrupts are off since the trap.
pub fn take_debug_status() -> u64 {
    /// The bits that are 1 where nothing is said.
    const NOTHING: u64 = 0xffff_0ff0;
    let status: u64;
    // SAFETY: reading DR6 changes nothing, and writing it changes what the next reader is told.
    unsafe {
        asm!("mov {status}, dr6", "mov dr6, {nothing}", status = out(reg) status, nothing = in(reg) NOTHING,
             options(nomem, nostack, preserves_flags));
    }
    status
}

/// The root that this CPU translates through.
pub fn root() -> Pfn {
    let cr3;
    // SAFETY: reading CR3 changes nothing.
    unsafe { asm!("mov {}, cr3", out(reg) cr3, options(nomem, nostack, preserves_flags)) };
    PhysAddr(cr3).pfn()
}

/// Translates through `root` from now on, and through nothing cached (no entry is global).
///
/// # Safety
/// The tables map the kernel as the present ones do.
pub unsafe fn set_root(root: Pfn) {
    // SAFETY: the caller's promise. Not `nomem`: stores before it must not move behind it.
    unsafe { asm!("mov cr3, {}", in(reg) root.addr().0, options(nostack, preserves_flags)) };
}

/// Forgets the translation of a page, and all upper levels.
pub fn forget(page: VirtAddr) {
    // SAFETY: forgetting a translation is always allowed.
    unsafe { asm!("invlpg [{}]", in(reg) page.0, options(nostack, preserves_flags)) };
}

/// The flags.
#[inline(always)]
pub fn flags() -> usize {
    let flags;
    // SAFETY: reading the flags changes nothing; the push may go below the red zone only if the compiler
    // knows of it, so this is not `nostack`.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags
}

/// The stack pointer.
#[inline(always)]
pub fn stack_pointer() -> u64 {
    let pointer;
    // SAFETY: reading a register changes nothing.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Interrupts off.
#[inline(always)]
pub fn disable_interrupts() {
    // SAFETY: an interrupt may come later. Not `nomem`: it orders memory accesses for the
    // compiler.
    unsafe { asm!("cli", options(nostack, preserves_flags)) };
}

/// Interrupts on.
///
/// # Safety
/// No code that is under way on this CPU relies on their being off.
#[inline(always)]
pub unsafe fn enable_interrupts() {
    // SAFETY: the caller's promise. Handlers keep all registers, the red zone and SSE state (`trap.s`);
    // without a table of vectors the first interrupt resets the machine.
    unsafe { asm!("sti", options(nostack, preserves_flags)) };
}

/// Turns interrupts on, stops until one comes or another event ends the wait, and turns them off again. An
/// interrupt between the first two wakes as well: `sti` holds them off for one instruction.
///
/// # Safety
/// As [`enable_interrupts`].
pub unsafe fn wait_for_interrupt() {
    // SAFETY: as `enable_interrupts`.
    unsafe { asm!("sti", "hlt", "cli", options(nostack, preserves_flags)) };
}

/// Stops this CPU.
pub fn halt_for_good() {
    // SAFETY: a CPU that stops changes nothing.
    unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
}

/// The time stamp counter.
#[inline(always)]
pub fn time_stamp() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reading the counter changes nothing.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}
