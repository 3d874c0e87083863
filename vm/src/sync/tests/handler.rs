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

fn register(machine: &TestMachine) -> Result<Registration<'_, TestMachine, Counter<'static>>, RegisterError> {
    Registration::register(machine, &mut Heap)
}

#[test]
fn a_handler_has_one_owner_until_that_is_dropped() {
    let mut machine = TestMachine::with_cpus(1, 1);
    machine.run_as(0);
    let first = register(&machine).unwrap();
    assert_eq!(register(&machine).err(), Some(RegisterError::Taken));
    interrupt(&machine);
    assert_eq!(first.0.load(Relaxed), 1, "the refused one has taken nothing");
    drop(first);
    let second = register(&machine).unwrap();
    let count = second.0;
    core::mem::forget(second);
    interrupt(&machine);
    assert_eq!(register(&machine).err(), Some(RegisterError::Taken), "a leaked one goes on");
    interrupt(&machine);
    assert_eq!(count.load(Relaxed), 2);
    machine.unclaim_memory();
    let third = register(&machine).unwrap();
    interrupt(&machine);
    assert_eq!(third.0.load(Relaxed), 1, "the machine was had exclusively");
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
    let refused = Registration::<_, Counter<'static>>::register(&machine, &mut Short);
    assert_eq!(refused.err(), Some(RegisterError::NoMemory));
}
