//! An idle CPU leaves its quiescence, whatever ends the instruction that it waits in.

use super::world::fail;
use crate::arch::apic::{self, Vector};
use crate::arch::{Core, MACHINE, percpu, smi, thread};
use crate::task::sched;
use core::sync::atomic::{AtomicBool, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::units::CpuId;
use interleaf_kernel::core::options::Options;

/// Interrupts of either kind.
const ROUNDS: u32 = 20;
/// Nanoseconds that the other CPU gets to notice one.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The CPU that idles.
const IDLER: CpuId = CpuId(1);

/// Wakes another CPU by a system management interrupt, after which `hlt` returns without a handler of the
/// kernel having run, and by an interrupt with a handler.
pub fn ends_with_the_wait(_: &Options<'_>) -> bool {
    if MACHINE.nr_cpus() < 2 {
        return true;
    }
    let passed = AtomicBool::new(false);
    let test = || {
        let handler = smi::Handler::install();
        let smi = |cpu| handler.send(cpu);
        let by_smi = (0..ROUNDS).all(|_| leaves_idle_after(smi, "a wait that no handler ended"));
        let tick = |cpu| apic::send(cpu, Vector::RESCHED);
        let by_handler = (0..ROUNDS).all(|_| leaves_idle_after(tick, "a wait that a handler ended"));
        passed.store(by_smi && by_handler, SeqCst);
    };
    // Without ticks nothing else ends a wait.
    thread::run_all(&[&|| (), &apic::no_ticks], true);
    thread::run_all(&[&test], true);
    thread::run_all(&[&|| (), &sched::start_ticks], true);
    passed.load(SeqCst)
}

/// Wakes the idling CPU by `wake`, and looks whether it says that it was not idle in between.
fn leaves_idle_after(wake: impl Fn(u32), what: &str) -> bool {
    let idler = percpu::of(IDLER);
    let until = Core::now_ns() + PATIENCE_NS;
    let within = |is_so: &dyn Fn() -> bool| {
        while !is_so() && Core::now_ns() < until {
            Core::relax();
        }
        is_so()
    };
    if !within(&|| idler.quiescence().is_none()) {
        return fail(format_args!("{IDLER:?} is never idle"));
    }
    let before = idler.nr_quiescences();
    wake(idler.apic_id());
    within(&|| idler.nr_quiescences() > before)
        || fail(format_args!("{IDLER:?} still counts as idle after {what}"))
}
