//! Faults that wait for a page that a pager does not have yet.

use crate::frame::PageFill;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::object::{PageAnswer, Pager, PagerKey};
use crate::space::tests::world::object::{
    PRIVATE, SHARED, Space, TestVm, at, fault, leaf, load, on, vm_with,
};
use crate::space::tests::world::pager::{KEY, map_paged};
use crate::space::tests::world::{PAGE, leak};
use crate::space::*;
use crate::units::Access;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Says so many times that a page is not ready.
struct Slow {
    answers: AtomicU64,
    asked: AtomicU64,
    /// Whether it stores something before it says so.
    scribbles: bool,
}

impl Pager<TestMachine> for Slow {
    fn try_page(&self, _object: PagerKey, page: u64, into: &mut PageFill<'_, TestMachine>) -> PageAnswer {
        let nth = self.asked.fetch_add(1, SeqCst);
        if nth < self.answers.load(SeqCst) {
            if self.scribbles {
                into.write(8, &[0xff]);
            }
            return PageAnswer::NotReady;
        }
        into.write(0, &[page as u8 + 1]);
        PageAnswer::Ready
    }
}

fn with_slow(answers: u64, scribbles: bool, test: impl Fn(&TestVm<'_>, &Space<'_>, &Slow)) {
    for path in [Path::Speculative, Path::Locked] {
        let pager = Slow { answers: AtomicU64::new(answers), asked: AtomicU64::new(0), scribbles };
        let machine = TestMachine::new(1500);
        let vm = vm_with(&machine, VmOptions { pager: Some(&pager), ..VmOptions::default() });
        on(&vm, path, |vm, space| {
            let object = ObjectHandle::paged(vm, KEY).unwrap();
            map_paged(&space, &object, 4);
            test(vm, &space, &pager);
        });
    }
}

/// And what was stored into it before is gone.
#[test]
fn a_fault_asks_once_after_each_wait_until_the_page_is_ready() {
    for scribbles in [false, true] {
        with_slow(5, scribbles, |_, space, pager| {
            assert_eq!(load(space, PRIVATE + 1), 2);
            assert_eq!(pager.asked.load(SeqCst), 6);
            let mut bytes = [0xee; 16];
            assert_eq!(space.copy_from(at(SHARED + 1), &mut bytes), Ok(16));
            assert_eq!((bytes[0], &bytes[1..]), (2, &[0; 15][..]));
        });
    }
}

/// They are of the same word, one of few: each time it is woken for another, the fault asks again.
#[test]
fn pages_of_others_may_become_ready_any_number_of_times_first() {
    /// Makes each page of a run of others ready, which covers all words, when it is asked.
    struct Busy<'a>(Mutex<(u64, Option<&'a TestVm<'a>>)>);
    impl Pager<TestMachine> for Busy<'_> {
        fn try_page(&self, _: PagerKey, page: u64, into: &mut PageFill<'_, TestMachine>) -> PageAnswer {
            let mut left = self.0.lock().unwrap();
            let (true, Some(vm)) = (left.0 > 0, left.1) else {
                into.write(0, &[page as u8 + 1]);
                return PageAnswer::Ready;
            };
            left.0 -= 1;
            (100..1000).for_each(|other| vm.page_ready(KEY, other));
            PageAnswer::NotReady
        }
    }
    for path in [Path::Speculative, Path::Locked] {
        let machine = leak(TestMachine::new(1500));
        let pager: &'static Busy<'static> = leak(Busy(Mutex::new((5000, None))));
        let vm = leak(vm_with(machine, VmOptions { pager: Some(pager), ..VmOptions::default() }));
        pager.0.lock().unwrap().1 = Some(vm);
        on(vm, path, |vm, space| {
            let object = ObjectHandle::paged(vm, KEY).unwrap();
            map_paged(&space, &object, 4);
            assert_eq!(load(&space, PRIVATE), 1);
        });
        assert_eq!(pager.0.lock().unwrap().0, 0);
    }
}

/// It would wait for good, and its thread could not be ended.
#[test]
fn a_page_that_is_never_ready_ends_a_fault_with_a_bus_error() {
    with_slow(u64::MAX, false, |_, space, pager| {
        assert_eq!(fault(space, PRIVATE, Access::Write), Err(FaultError::Stalled));
        assert_eq!(space.copy_to(at(SHARED), &[1]), Err(Error::Fault));
        assert_eq!(leaf(space, PRIVATE), None);
        pager.answers.store(0, SeqCst);
        assert_eq!(load(space, PRIVATE), 1);
    });
}

/// The lock of the space is not held meanwhile: its other pages are mapped and unmapped.
#[test]
fn nothing_is_locked_while_a_fault_asks_and_waits() {
    /// Unmaps a page of the space when it is asked.
    struct Unmaps<'a>(Mutex<Option<&'a Space<'a>>>);
    impl Pager<TestMachine> for Unmaps<'_> {
        fn try_page(&self, _: PagerKey, page: u64, into: &mut PageFill<'_, TestMachine>) -> PageAnswer {
            let Some(space) = self.0.lock().unwrap().take() else {
                into.write(0, &[page as u8 + 1]);
                return PageAnswer::Ready;
            };
            space.unmap(at(PRIVATE + 3), PAGE).unwrap();
            space.vm().synchronize();
            space.vm().page_ready(KEY, page);
            PageAnswer::NotReady
        }
    }
    for path in [Path::Speculative, Path::Locked] {
        let machine = leak(TestMachine::new(1500));
        let pager: &'static Unmaps<'static> = leak(Unmaps(Mutex::new(None)));
        let vm = leak(vm_with(machine, VmOptions { pager: Some(pager), ..VmOptions::default() }));
        let layout = Layout::linux::<TestFormat>().overcommit();
        let space: &'static Space<'static> = leak(AddressSpace::new(vm, layout, path).unwrap());
        let object = ObjectHandle::paged(vm, KEY).unwrap();
        map_paged(space, &object, 4);
        *pager.0.lock().unwrap() = Some(space);
        assert_eq!(load(space, PRIVATE), 1);
        assert_eq!(fault(space, PRIVATE + 3, Access::Read), Err(FaultError::NotMapped));
    }
}
