//! From `boot.s` to `main`, and the start of the other CPUs.

use super::loader::StartInfo;
use super::space::{self, firmware_bytes};
use super::thread::{self, Thread};
use super::upcalls::{main_of_boot_cpu, map_stack, sched};
use super::{MACHINE, apic, clock, percpu, registers, segments, user, vectors};
use core::arch::global_asm;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use interleaf::units::{CpuId, PhysAddr};

global_asm!(include_str!("boot.s"), options(att_syntax));

/// Where another CPU starts, in real mode: below 1 MiB, in memory that the library does not get.
const TRAMPOLINE: PhysAddr = PhysAddr(0x8000);

/// What `boot.s` gives a CPU that starts: the root it loads, and the top of its stack. Written before the CPU
/// is started, which is one at a time.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static other_cpu_root: AtomicU64 = AtomicU64::new(0);
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static other_cpu_stack: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
}

/// The boot CPU's first Rust.
#[unsafe(no_mangle)]
extern "C" fn boot_cpu_main(start_info: u32) -> ! {
    vectors::init();
    apic::mask_legacy_pics();
    // SAFETY: `boot.s` calls this function once, on the CPU that boots, on the boot thread's stack.
    unsafe { thread::adopt_boot_thread() };
    // SAFETY: this is CPU 0, as just said.
    unsafe { init_cpu(CpuId(0)) };
    // SAFETY: this is the bottom of the stack. Nothing interrupts before the controller is on.
    unsafe { registers::enable_interrupts() };
    // SAFETY: `boot.s` passes what the loader has passed to the entry of its note.
    main_of_boot_cpu(unsafe { StartInfo::new(start_info) })
}

/// Prepares a CPU for its first interrupt.
///
/// # Safety
/// This is the CPU with this number.
unsafe fn init_cpu(cpu: CpuId) {
    // SAFETY: each CPU loads its own segments, and is told its number from there.
    unsafe { percpu::of(cpu).segments.load(cpu) };
    vectors::load();
    segments::enable_syscalls();
    let features = registers::Features::of_this_cpu();
    features.enable();
    user::init(features);
}

/// Turns this CPU's interrupt controller on. Its page is mapped.
pub fn init_controller() {
    apic::init();
    percpu::this().set_apic_id(apic::id());
}

/// Another CPU's first Rust, on the stack of its idle thread.
#[unsafe(no_mangle)]
extern "C" fn other_cpu_main() -> ! {
    let cpu = CpuId(MACHINE.online());
    // SAFETY: `boot.s` calls this function once on each CPU that is started, on the stack for it. They are
    // started one by one (`start_others`), so no other CPU has the number.
    unsafe { thread::adopt_idle_thread(cpu) };
    // SAFETY: this is that CPU, as just said.
    unsafe { init_cpu(cpu) };
    init_controller();
    sched::start_ticks();
    MACHINE.has_started();
    // SAFETY: this is the bottom of the stack.
    unsafe { registers::enable_interrupts() };
    sched::idle(0);
    unreachable!("idle never ends")
}

/// [`start_others`] was called.
static OTHERS_STARTED: AtomicBool = AtomicBool::new(false);

/// Starts all other CPUs, one after the other.
///
/// # Errors
/// The first CPU that does not start.
pub fn start_others(nr_cpus: u32) -> Result<(), CpuId> {
    assert!(!OTHERS_STARTED.swap(true, Relaxed), "the other CPUs are started once");
    let len = (&raw const trampoline_end).addr() - (&raw const trampoline).addr();
    // SAFETY: the boot part is RAM that is no longer written; `Loader::boot_map` keeps it from the library.
    let code = unsafe { firmware_bytes(PhysAddr((&raw const trampoline).addr() as u64), len) };
    // SAFETY: the trampoline's place is RAM of the first MiB, which `Loader::boot_map` keeps from the
    // library, and has no other user.
    unsafe { space::window(TRAMPOLINE).copy_from_nonoverlapping(NonNull::from(code).cast(), len) };
    other_cpu_root.store(space::kernel_root().addr().0, Relaxed);
    for cpu in (1..nr_cpus).map(CpuId) {
        map_stack(cpu.index()).ok_or(cpu)?;
        other_cpu_stack.store(Thread::stack_of(cpu.index()).end as u64, Relaxed);
        // SAFETY: the loop starts each CPU but this one once, and `main` calls this function once, which the
        // first assertion checks. The trampoline lies there, which leads to `other_cpu_main`.
        unsafe { apic::start(cpu.0, (TRAMPOLINE.0 >> 12) as u8) };
        let patience_ms = 2000;
        let came = (0..patience_ms).any(|_| {
            let came = MACHINE.online() > cpu.0;
            if !came {
                clock::delay_us(1000);
            }
            came
        });
        if !came {
            return Err(cpu);
        }
    }
    Ok(())
}
