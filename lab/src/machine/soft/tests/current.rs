use super::*;

#[test]
fn a_cpu_runs_one_thread() {
    let bus = Arc::new(Bus::new(2));
    enter(&bus, CpuId(1));
    assert_eq!(cpu(), CpuId(1));
    let other = bus.clone();
    assert!(std::thread::spawn(move || enter(&other, CpuId(1))).join().is_err());
    let suspended = suspend();
    enter(&bus, CpuId(0));
    leave();
    resume(suspended);
    assert_eq!(cpu(), CpuId(1));
    leave();
    assert_eq!(binding(), NO_CPU);
}

#[test]
fn a_handler_that_forgets_a_guard_is_noticed() {
    let (bus, depth) = (Arc::new(Bus::new(1)), preempt_depth());
    bus.set_interrupt_handler(Some(Arc::new(preempt_off)));
    enter(&bus, CpuId(0));
    bus.line(CpuId(0)).raise(INTERRUPT);
    let message = std::panic::catch_unwind(handle_interrupts).expect_err("a panic");
    assert!(message.downcast_ref::<String>().is_some_and(|text| text.contains("left preemption off")));
    assert!(interrupts_on());
    // SAFETY: the handler's, on which nothing relies.
    unsafe { preempt_on() };
    assert_eq!(preempt_depth(), depth);
    bus.set_interrupt_handler(None);
    leave();
}

#[test]
fn an_interrupt_waits_until_interrupts_are_on_and_is_handled_once() {
    let (bus, count) = (Arc::new(Bus::new(1)), Arc::new(AtomicU64::new(0)));
    let counter = count.clone();
    bus.set_interrupt_handler(Some(Arc::new(move || {
        counter.fetch_add(1, Relaxed);
    })));
    enter(&bus, CpuId(0));
    let state = interrupts_off();
    bus.line(CpuId(0)).raise(INTERRUPT);
    handle_interrupts();
    assert_eq!(count.load(Relaxed), 0);
    // SAFETY: the one just turned off.
    unsafe { interrupts_restore(state) };
    assert_eq!(count.load(Relaxed), 1);
    handle_interrupts();
    assert_eq!(count.load(Relaxed), 1);
    bus.set_interrupt_handler(None);
    leave();
}
