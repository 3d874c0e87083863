//! Registrations that are dropped, leaked, or refused.

use super::*;
use crate::machine::Context;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::testing::Heap;
use crate::units::CpuMask;
use core::alloc::Layout;
use core::mem::MaybeUninit;

/// Counts its calls in carved memory.
struct Counter<'x>(&'x AtomicU32<TestCpu>);

impl Handler<TestMachine> for Counter<'static> {
    type State<'x> = Counter<'x>;
    const EVENT: Event = Event::Interrupt;

    fn carve<'x>(from: &mut impl Carve<'x>, _: &TestMachine) -> Option<Counter<'x>> {
        Some(Counter(carve_value(from, AtomicU32::new(0))?))
    }
    fn shorten<'a, 's, 'l: 's>(state: &'a Counter<'l>) -> &'a Counter<'s> {
        state
    }
    fn handle(state: &Counter<'_>, _: &TestMachine) {
        assert!(TestCpu::with_context(Context::in_handler));
        state.0.fetch_add(1, Relaxed);
    }
}

fn interrupt(machine: &TestMachine) {
    machine.interrupt(&CpuMask::from_words([1]));
    TestCpu::relax();
    assert!(!TestCpu::with_context(Context::in_handler));
}

#[test]
fn a_leaked_registration_goes_on_and_a_dropped_one_ends() {
    let machine = TestMachine::with_cpus(1, 1);
    machine.run_as(0);
    let first = Registration::<_, Counter<'static>>::register(&machine, &mut Heap).unwrap();
    let count = first.0;
    core::mem::forget(first);
    interrupt(&machine);
    assert_eq!(count.load(Relaxed), 1);
    let second = Registration::<_, Counter<'static>>::register(&machine, &mut Heap).unwrap();
    interrupt(&machine);
    assert_eq!((count.load(Relaxed), second.0.load(Relaxed)), (1, 1), "the last one registered is called");
    drop(second);
    interrupt(&machine);
    assert_eq!(count.load(Relaxed), 1);
}

#[test]
fn memory_that_may_end_before_the_machine_is_refused() {
    struct Short;
    impl<'m> Carve<'m> for Short {
        fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
            Heap.carve(layout)
        }
    }
    // SAFETY: it says that it outlives no machine.
    unsafe impl<M> MachineMemory<'_, M> for Short {
        fn outlives(&self, _: &M) -> bool {
            false
        }
    }
    let machine = TestMachine::with_cpus(1, 1);
    assert!(Registration::<_, Counter<'static>>::register(&machine, &mut Short).is_none());
}
