//! Objects whose pages a pager fills: an embedder's, in memory.

use crate::frame::PageFill;
use crate::machine::testing::TestMachine;
use crate::object::{PageAnswer, Pager, PagerKey};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::object::{
    PRIVATE, SHARED, Space, TestVm, at, fault, in_each, leaf, map, on, request, store, vm_with,
};
use crate::space::tests::world::pager::{KEY, map_paged};
use crate::space::*;
use crate::units::Access;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::Mutex;
use std::vec::Vec;

/// The bytes of a page, or what is said of it.
type Stored = Result<Vec<u8>, PageAnswer>;

/// Objects in memory: the pages of each, by its key. What a page lacks is said when it is asked for.
#[derive(Default)]
struct InMemory {
    /// The bytes at the start of each page, or the answer.
    pages: Mutex<BTreeMap<(PagerKey, u64), Stored>>,
    /// What was asked.
    asked: Mutex<Vec<(PagerKey, u64)>>,
}

impl InMemory {
    pub(super) fn put(&self, key: PagerKey, page: u64, text: &str) {
        self.pages.lock().unwrap().insert((key, page), Ok(text.as_bytes().to_vec()));
    }

    pub(super) fn refuse(&self, key: PagerKey, page: u64, answer: PageAnswer) {
        self.pages.lock().unwrap().insert((key, page), Err(answer));
    }

    /// What was asked since the last call.
    pub(super) fn asked(&self) -> Vec<(PagerKey, u64)> {
        core::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Pager<TestMachine> for InMemory {
    fn try_page(&self, object: PagerKey, page: u64, into: &mut PageFill<'_, TestMachine>) -> PageAnswer {
        self.asked.lock().unwrap().push((object, page));
        match self.pages.lock().unwrap().get(&(object, page)) {
            Some(Ok(bytes)) => {
                into.write(0, bytes);
                PageAnswer::Ready
            }
            Some(Err(answer)) => *answer,
            None => PageAnswer::Beyond,
        }
    }
}

/// As [`in_each`], with a pager of objects in memory.
fn with_pager(test: impl Fn(&TestVm<'_>, Space<'_>, &InMemory)) {
    for path in [Path::Speculative, Path::Locked] {
        let pager = InMemory::default();
        let machine = TestMachine::new(1500);
        let vm = vm_with(&machine, VmOptions { pager: Some(&pager), ..VmOptions::default() });
        on(&vm, path, |vm, space| test(vm, space, &pager));
    }
}

/// The text at the start of a page, as a program loads it.
fn text(space: &Space<'_>, page: u64) -> String {
    let mut bytes = [0xee; PAGE as usize];
    assert_eq!(space.copy_from(at(page), &mut bytes), Ok(bytes.len()));
    let len = bytes.iter().position(|&byte| byte == 0).unwrap();
    assert!(bytes[len..].iter().all(|&byte| byte == 0), "what was not filled is zero");
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}

#[test]
fn a_pager_fills_each_page_once() {
    with_pager(|vm, space, pager| {
        let objects = [KEY, PagerKey(8)].map(|key| ObjectHandle::paged(vm, key).unwrap());
        pager.put(KEY, 0, "one");
        pager.put(KEY, 1, "two");
        pager.put(PagerKey(8), 1, "other");
        map_paged(&space, &objects[0], 4);
        map(&space, &objects[1], (2 * PRIVATE, 4), Sharing::Shared);
        assert_eq!((text(&space, SHARED), text(&space, PRIVATE)), ("one".into(), "one".into()));
        assert_eq!((text(&space, PRIVATE + 1), text(&space, SHARED + 1)), ("two".into(), "two".into()));
        assert_eq!(text(&space, 2 * PRIVATE + 1), "other");
        assert_eq!(pager.asked(), [(KEY, 0), (KEY, 1), (PagerKey(8), 1)]);
        assert_eq!(vm.totals().get(Counter::PgMajFault), 3);
        // What is dropped here, the object has.
        space.advise(at(SHARED), 2 * PAGE, Advice::DontNeed).unwrap();
        assert_eq!((text(&space, SHARED), pager.asked()), ("one".into(), Vec::new()));
    });
}

#[test]
fn a_store_to_a_private_mapping_copies_what_the_pager_has_filled() {
    with_pager(|vm, space, pager| {
        let object = ObjectHandle::paged(vm, KEY).unwrap();
        (0..3).for_each(|page| pager.put(KEY, page, "text"));
        map_paged(&space, &object, 4);
        // Absent, and shown before.
        assert_eq!(text(&space, PRIVATE + 1), "text");
        for page in [0, 1] {
            store(&space, PRIVATE + page, b'n');
            assert_eq!(
                (text(&space, PRIVATE + page), text(&space, SHARED + page)),
                ("next".into(), "text".into())
            );
        }
        assert_eq!(space.copy_to(at(PRIVATE + 2), b"r"), Ok(1));
        assert_eq!((text(&space, PRIVATE + 2), text(&space, SHARED + 2)), ("rext".into(), "text".into()));
        assert_eq!(pager.asked().len(), 3);
        let child = space.fork().unwrap();
        assert_eq!((text(&child, PRIVATE), text(&child, SHARED)), ("next".into(), "text".into()));
    });
}

#[test]
fn a_page_that_an_object_does_not_have_or_cannot_give_is_a_bus_error() {
    for answer in [PageAnswer::Beyond, PageAnswer::Error] {
        with_pager(|vm, space, pager| {
            let object = ObjectHandle::paged(vm, KEY).unwrap();
            pager.put(KEY, 0, "one");
            pager.refuse(KEY, 1, answer);
            map_paged(&space, &object, 2);
            for page in [SHARED + 1, PRIVATE + 1] {
                for access in [Access::Read, Access::Write] {
                    assert_eq!(fault(&space, page, access), Err(FaultError::Beyond));
                    assert_eq!(leaf(&space, page), None);
                }
                assert_eq!(space.copy_to(at(page), &[1]), Err(Error::Fault));
                assert_eq!(space.advise(at(page), PAGE, Advice::PopulateRead), Err(Error::Fault));
            }
            // The object has grown, or the disk is back.
            pager.put(KEY, 1, "two");
            assert_eq!((text(&space, PRIVATE + 1), text(&space, SHARED)), ("two".into(), "one".into()));
        });
    }
}

/// Its objects have no pages.
#[test]
fn a_system_without_a_pager_makes_no_such_object() {
    in_each(|vm, _space| {
        assert!(matches!(ObjectHandle::paged(vm, KEY), Err(Error::Invalid)));
    });
}

/// What was filled is kept for the next attempt where only the index lacks memory.
#[test]
fn a_lack_of_memory_loses_no_page() {
    let allocations = each_allocation(|nth| {
        let has_struck = core::cell::Cell::new(false);
        with_pager(|vm, space, pager| {
            let object = ObjectHandle::paged(vm, KEY).unwrap();
            pager.put(KEY, 600, "far");
            let request = request(PRIVATE, 1, Sharing::Private);
            space.map(&request.backed_by(object.at_page(600))).unwrap();
            vm.memory().plan_mishaps(nth, 3);
            let result = fault(&space, PRIVATE, Access::Write);
            has_struck.set(has_struck.get() | !vm.memory().is_mishap_planned());
            vm.memory().plan_mishap(0);
            assert!(matches!(result, Ok(()) | Err(FaultError::NoMemory)), "allocation {nth}: {result:?}");
            assert_eq!(text(&space, PRIVATE), "far");
            assert!(pager.asked().len() <= 2);
        });
        has_struck.get()
    });
    assert!(allocations >= 3, "{allocations} allocations");
}

#[test]
fn the_pages_of_an_ended_object_are_filled_anew_by_the_next() {
    with_pager(|vm, space, pager| {
        pager.put(KEY, 0, "old");
        let object = ObjectHandle::paged(vm, KEY).unwrap();
        map(&space, &object, (SHARED, 1), Sharing::Shared);
        assert_eq!(text(&space, SHARED), "old");
        pager.put(KEY, 0, "new");
        drop(object);
        assert_eq!(text(&space, SHARED), "old", "a mapping keeps it");
        let again = ObjectHandle::paged(vm, KEY).unwrap();
        map(&space, &again, (SHARED, 1), Sharing::Shared);
        assert_eq!(text(&space, SHARED), "new");
    });
}
