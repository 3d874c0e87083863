//! What an edit has left in a slot is put by that edit, after its own flush, also beside another one.

use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::edit::Zap;
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{AddressSpace, Advice, Fault, MapRequest, Place, Sharing, Vm};
use crate::sync::with_interrupts_off;
use crate::units::{Access, Vpn, VpnRange};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;

/// Shared memory, whose frames an entry does not have alone: more of them than a gather keeps.
const ALL: VpnRange = VpnRange { start: Vpn(4096), end: Vpn(4120) };
/// What the first edit drops, and the page in it that is touched only once that edit has passed.
const FIRST: VpnRange = VpnRange { start: Vpn(4108), end: Vpn(4120) };
const LATE: Vpn = Vpn(4114);

fn touch(space: &TestSpace<'_>, page: Vpn) {
    space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
}

fn wait(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

/// What has happened.
#[derive(Default)]
struct Seen {
    loaded: AtomicU32,
    /// The late page is mapped.
    is_touched: AtomicBool,
    /// CPU 2 has answered the first edit's flush, and has the late page cached since.
    is_cached: AtomicBool,
    has_first_ended: AtomicBool,
    is_over: AtomicBool,
}

/// The second edit, on CPU 1, which the first one's flush waits for: it unhooks all pages, and flushes only
/// once the first has ended. As long as CPU 2 has a translation of the late page, that keeps its frame.
fn second_edit(machine: &TestMachine, space: &TestSpace<'_>, seen: &Seen) {
    let running = space.activate(None);
    seen.loaded.fetch_add(1, SeqCst);
    wait(|| machine.is_interrupted(1));
    let guard = space.read(ALL);
    let late = with_interrupts_off::<TestCpu, _>(|| {
        touch(space, LATE);
        seen.is_touched.store(true, SeqCst);
        wait(|| seen.is_cached.load(SeqCst));
        machine.cached(2, LATE).unwrap().pfn
    });
    let meta = space.vm().memory().meta(late).unwrap();
    space.entries.gather(guard.token(), ALL, |gather| {
        with_interrupts_off::<TestCpu, _>(|| Zap::of_unmapped(&space.entries).alone(ALL, gather));
        while !seen.has_first_ended.load(SeqCst) {
            TestCpu::relax();
        }
        let is_cached = machine.cached(2, LATE).is_some();
        assert!(!is_cached || meta.mapcount() == 1, "the mapping is put, and CPU 2 has it cached");
        Zap::of_unmapped(&space.entries).put_deferred(gather);
    });
    assert!(machine.cached(2, LATE).is_none() && meta.mapcount() == 0);
    drop((guard, running));
}

/// A program on CPU 2 that loads from the late page.
fn program(machine: &TestMachine, space: &TestSpace<'_>, seen: &Seen) {
    let running = space.activate(None);
    seen.loaded.fetch_add(1, SeqCst);
    wait(|| machine.is_interrupted(2));
    TestCpu::relax();
    wait(|| seen.is_touched.load(SeqCst));
    assert!(machine.translate(LATE, Access::Read).is_some());
    seen.is_cached.store(true, SeqCst);
    while !seen.is_over.load(SeqCst) {
        TestCpu::relax();
    }
    drop(running);
}

/// Sets a flag when it is dropped, also by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_frame_that_waits_in_its_slot_is_put_by_the_edit_that_has_left_it() {
    let machine = TestMachine::with_cpus(500, 3);
    machine.run_as(0);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (space, seen) = (space_of(&vm), Seen::default());
    let (place, sharing) = (Place::Fixed(ALL.start.addr()), Sharing::Shared);
    space.map(&MapRequest { place, sharing, ..MapRequest::anonymous(ALL.len() * PAGE) }).unwrap();
    (ALL.start.0..ALL.end.0).map(Vpn).filter(|&page| page != LATE).for_each(|page| touch(&space, page));
    thread::scope(|scope| {
        let on = |cpu, run: fn(&TestMachine, &TestSpace<'_>, &Seen)| {
            let (machine, space, seen) = (&machine, &space, &seen);
            scope.spawn(move || {
                machine.run_as(cpu);
                run(machine, space, seen);
            })
        };
        let (other, _program) = (on(1, second_edit), on(2, program));
        let _over = SetOnDrop(&seen.is_over);
        wait(|| seen.loaded.load(SeqCst) == 2);
        space.advise(FIRST.start.addr(), FIRST.len() * PAGE, Advice::DontNeed).unwrap();
        seen.has_first_ended.store(true, SeqCst);
        other.join().expect("the second edit");
    });
    drop(space);
    vm.memory().check().unwrap();
}
