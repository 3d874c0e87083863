//! The test machine itself.

use super::*;

#[test]
fn window_and_phys_of_are_inverse() {
    let machine = TestMachine::new(8);
    let at = PhysAddr(machine.frames().start.addr().0 + 5 * 4096 + 17);
    assert_eq!(machine.phys_of(machine.window(at)), at);
    machine.write(at.pfn(), at.offset(), b"interleaf");
    // SAFETY: nothing else uses the machine.
    unsafe { machine.copy(at.pfn(), machine.frames().start, Order::BASE) };
    let mut read = [0; 9];
    machine.read(machine.frames().start, 17, &mut read);
    assert_eq!(&read, b"interleaf");
    machine.barrier_all();
}

#[test]
fn an_interrupted_cpu_runs_the_handler_in_its_next_wait_loop() {
    unsafe fn count(_machine: &TestMachine, data: usize) {
        // SAFETY: the test hands in the address of a counter that outlives the machine's handler.
        let counter = unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(data) };
        counter.fetch_add(1, Relaxed);
    }
    let (machine, calls) = (TestMachine::with_cpus(1, 2), AtomicU64::new(0));
    machine.run_as(1);
    let callback = Callback { call: count, data: (&raw const calls).expose_provenance() };
    // SAFETY: the counter lives until after the last interrupt.
    assert!(unsafe { machine.set_interrupt_handler(Some(callback)) });
    machine.interrupt(&CpuMask::from_words([0b10]));
    TestCpu::relax();
    TestCpu::relax();
    assert_eq!(calls.load(Relaxed), 1);
}
