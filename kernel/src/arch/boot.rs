//! From `boot.s` to `main`, and the start of the other CPUs.

use super::space::{self, firmware_bytes};
use super::thread::{self, Thread};
use super::upcalls::{main_of_boot_cpu, map_stack, sched};
use super::{MACHINE, apic, clock, percpu, registers, segments, user, vectors};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, Ordering::*};
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
    thread::adopt_boot_thread();
    init_cpu(CpuId(0));
    main_of_boot_cpu(start_info)
}

/// Prepares a CPU for its first interrupt.
fn init_cpu(cpu: CpuId) {
    percpu::this().segments.load(cpu);
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
    thread::adopt_idle_thread(cpu);
    init_cpu(cpu);
    init_controller();
    sched::start_ticks();
    MACHINE.has_started();
    registers::enable_interrupts();
    sched::idle(0);
    unreachable!("idle never ends")
}

/// Starts all other CPUs, one after the other.
///
/// # Errors
/// The first CPU that does not start.
pub fn start_others(nr_cpus: u32) -> Result<(), CpuId> {
    let len = (&raw const trampoline_end).addr() - (&raw const trampoline).addr();
    // SAFETY: the boot part is RAM that is no longer written, and the trampoline's place is RAM without
    // another user.
    unsafe {
        let code = firmware_bytes(PhysAddr((&raw const trampoline).addr() as u64), len);
        space::window(TRAMPOLINE).as_ptr().copy_from_nonoverlapping(code.as_ptr(), len);
    }
    other_cpu_root.store(space::kernel_root().addr().0, Relaxed);
    for cpu in (1..nr_cpus).map(CpuId) {
        map_stack(cpu.index()).ok_or(cpu)?;
        other_cpu_stack.store(Thread::stack_of(cpu.index()).end as u64, Relaxed);
        apic::start(cpu.0, (TRAMPOLINE.0 >> 12) as u8);
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
