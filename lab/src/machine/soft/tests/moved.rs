//! A machine that is moved while a handler is set, and memory that safe code may fill.

use super::{Tiny, conformance::config};
use crate::machine::host::Host;
use crate::machine::soft::arena::DIRTY_BYTE;
use crate::machine::soft::{MachineConfig, SoftMachine};
use interleaf::machine::{Callback, Cpu, Machine};
use interleaf::units::{CpuId, CpuMask, Order, Pfn, PfnRange};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

type TestMachine = SoftMachine<Host, Tiny>;

fn machine() -> TestMachine {
    SoftMachine::new(&config()).unwrap()
}

/// The bus of the machine that the handler was called with last.
static CALLED_WITH: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// None.
unsafe fn note(machine: &TestMachine, data: usize) {
    assert_eq!(data, 77);
    CALLED_WITH.store(machine.bus().id().into(), SeqCst);
}

#[test]
fn a_handler_is_called_with_the_machine_that_it_was_set_in_wherever_that_is() {
    let mut machines = [machine(), machine()];
    let id = machines[0].bus().id();
    // SAFETY: the function may be called with any machine and this number.
    assert!(unsafe { machines[0].set_interrupt_handler(Some(Callback { call: note, data: 77 })) });
    machines.swap(0, 1);
    let _here = machines[1].enter(CpuId(0));
    machines[1].interrupt(&CpuMask::from_words([1]));
    Host::relax();
    assert_eq!(CALLED_WITH.load(SeqCst), u64::from(id));
}

#[test]
fn a_machine_whose_handler_was_never_removed_ends_all_the_same() {
    let machine = machine();
    // SAFETY: as above.
    assert!(unsafe { machine.set_interrupt_handler(Some(Callback { call: note, data: 77 })) });
    let bus = Arc::downgrade(machine.bus());
    drop(machine);
    assert!(bus.upgrade().is_none(), "the handler keeps the machine");
}

#[test]
fn memory_is_filled_from_safe_code_only_while_no_system_has_it() {
    let machine = machine();
    let (start, bytes) = (machine.arena().regions()[0].start, |pfn| {
        let mut bytes = [1; 2];
        machine.read(pfn, 4094, &mut bytes);
        bytes
    });
    machine.bare_memory().zero(start, Order(1));
    assert_eq!([bytes(start), bytes(start.add(1)), bytes(start.add(2))], [[0; 2], [0; 2], [DIRTY_BYTE; 2]]);
    assert!(machine.claim_memory(&[PfnRange::new(start.add(1), start.add(3))]));
    machine.bare_memory().zero(start.add(3), Order(0));
    for (pfn, order) in [(start, Order(1)), (start.add(1), Order(0)), (start.add(2), Order(1))] {
        let filled = catch_unwind(AssertUnwindSafe(|| machine.bare_memory().zero(pfn, order)));
        assert!(filled.is_err(), "{pfn:?} was given to a system");
    }
    let beyond = AssertUnwindSafe(|| machine.bare_memory().zero(Pfn(1 << 30), Order(0)));
    assert!(catch_unwind(beyond).is_err(), "no memory");
}

#[test]
#[should_panic = "no memory at"]
fn a_read_where_there_is_no_memory_panics() {
    let range = |from, to| PfnRange::new(Pfn(from), Pfn(to));
    let config = MachineConfig { regions: vec![range(16, 20), range(24, 28)], ..MachineConfig::small(1, 1) };
    TestMachine::new(&config).unwrap().read(Pfn(21), 0, &mut [0]);
}
