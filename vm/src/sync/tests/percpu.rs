//! Which thread reaches a CPU's slot, with which part of it.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::Heap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;

type Slots = PerCpu<'static, CpuLocal<u64>, TestCpu>;

fn slots(nr_cpus: u32) -> Slots {
    PerCpu::carve(&mut Heap, nr_cpus, |cpu| CpuLocal::new(u64::from(cpu.0))).unwrap()
}

/// The message of the panic that `f` ends in.
fn panics<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("a panic");
    let text = payload.downcast_ref::<&str>().map(|text| String::from(*text));
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[test]
fn a_part_that_is_not_of_the_slot_is_refused() {
    static SHARED: CpuLocal<u64> = CpuLocal::new(0);
    let slots = slots(2);
    let own = slots.get_cpu();
    let foreign: fn(&CpuLocal<u64>) -> &CpuLocal<u64> = |_| &SHARED;
    assert!(panics(|| own.with(foreign, |n| *n += 1)).contains("not a part of this CPU's slot"));
    assert_eq!(own.with(|slot| slot, |n| *n), Some(0));
}

#[test]
fn a_part_in_use_is_refused_until_its_user_returns_or_unwinds() {
    let slots = slots(1);
    let own = slots.get_cpu();
    let nested = own.with(|slot| slot, |_| slots.get_cpu().with(|slot| slot, |n| *n));
    assert_eq!(nested, Some(None));
    panics(|| own.with(|slot| slot, |_| panic!("in use")));
    assert_eq!(own.with(|slot| slot, |n| *n), Some(0));
}

#[test]
fn a_cpu_beyond_the_array_is_refused() {
    let slots = slots(1);
    std::thread::spawn(move || {
        TestCpu::become_cpu(1);
        panics(|| slots.get_cpu());
        panics(|| slots.of(CpuId(u32::MAX)));
    })
    .join()
    .unwrap();
}

/// Calls `f` on a new thread that is CPU 0 of the machine with this number.
fn on_machine<R: Send>(machine: u32, f: impl FnOnce() -> R + Send) -> R {
    let run = || {
        TestCpu::become_cpu_of_machine(machine);
        f()
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn the_slots_are_those_of_one_machine() {
    let slots = slots(1);
    let add = || slots.get_cpu().with(|slot| slot, |n| *n += 1);
    assert_eq!(on_machine(2, add), Some(()));
    let message = on_machine(1, || panics(add));
    assert!(message.contains("another machine"), "{message}");
    assert!(
        on_machine(3, || panics(|| _ = slots.this_cpu(&PreemptGuard::new()))).contains("another machine")
    );
    assert_eq!(on_machine(2, add), Some(()));
}

#[test]
fn interrupts_come_on_again_when_the_outermost_section_ends_or_unwinds() {
    let off = || {
        let state = TestCpu::interrupts_off();
        // SAFETY: the one just turned off.
        unsafe { TestCpu::interrupts_restore(state) };
        state != Irq(0)
    };
    with_interrupts_off::<TestCpu, _>(|| {
        with_interrupts_off::<TestCpu, _>(|| assert!(off()));
        assert!(off());
    });
    assert!(!off());
    panics(|| with_interrupts_off::<TestCpu, _>(|| panic!("in a section")));
    assert!(!off());
}
