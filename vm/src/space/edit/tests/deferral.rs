//! What an edit has left in a slot is put by that edit, after its own flush, also beside another one.

use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::edit::zap::HugeFlush;
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{AddressSpace, Advice, Fault, MapRequest, Place, Sharing, Vm};
use crate::sync::with_interrupts_off;
use crate::units::{Access, Pfn, Vpn, VpnRange};
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
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

/// The second edit, on CPU 1, which the first one's flush waits for: it unhooks all pages, and flushes only
/// once the first has ended. Until then this CPU has a translation of the late page, so that its frame keeps
/// the mapping.
fn edit_late(machine: &TestMachine, space: &TestSpace<'_>, has_ended: &AtomicBool) {
    let late: Pfn = with_interrupts_off::<TestCpu, _>(|| {
        touch(space, LATE);
        machine.translate(LATE, Access::Read).unwrap().pfn
    });
    let guard = space.share(ALL);
    space.gather(guard.held(), ALL, |gather| {
        with_interrupts_off::<TestCpu, _>(|| space.unhook_alone(ALL, gather, HugeFlush::Later));
        while !has_ended.load(SeqCst) {
            TestCpu::relax();
        }
        if machine.cached(1, LATE).is_some() {
            let meta = space.vm().memory().meta(late).unwrap();
            assert_eq!(meta.mapcount(), 1, "put, and CPU 1 has it cached");
        }
        space.put_deferred(gather);
    });
    assert!(machine.cached(1, LATE).is_none());
    assert_eq!(space.vm().memory().meta(late).unwrap().mapcount(), 0);
}

#[test]
fn a_frame_that_waits_in_its_slot_is_put_by_the_edit_that_has_left_it() {
    let machine = TestMachine::leaked(500, 2);
    machine.run_as(0);
    let vm = Box::leak(Box::new(Vm::new(machine, boot_map(machine)).unwrap()));
    let space: &TestSpace<'_> = Box::leak(Box::new(space_of(vm)));
    let place = Place::Fixed(ALL.start.addr());
    let sharing = Sharing::Shared;
    space.map(&MapRequest { place, sharing, ..MapRequest::anonymous(ALL.len() * PAGE) }).unwrap();
    (ALL.start.0..ALL.end.0).map(Vpn).filter(|&page| page != LATE).for_each(|page| touch(space, page));
    let [is_loaded, has_ended] = [(); 2].map(|()| &*Box::leak(Box::new(AtomicBool::new(false))));
    let other = thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        is_loaded.store(true, SeqCst);
        wait(|| machine.is_interrupted(1));
        edit_late(machine, space, has_ended);
        drop(running);
    });
    wait(|| is_loaded.load(SeqCst));
    space.advise(FIRST.start.addr(), FIRST.len() * PAGE, Advice::DontNeed).unwrap();
    has_ended.store(true, SeqCst);
    other.join().expect("the second edit");
    vm.memory().check().unwrap();
}
