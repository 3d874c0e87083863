//! A pager with a disk in memory: it reads and writes whole pages, late or not at all where a test says so.

use crate::frame::PageFill;
use crate::machine::testing::TestMachine;
use crate::object::{PageAnswer, PageContents, Pager, PagerKey};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::object::{Space, TestVm, on, vm_with};
use crate::space::{ObjectHandle, Path, VmOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::vec::Vec;

pub(in crate::space::tests) const FILE: PagerKey = PagerKey(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space::tests) enum Event {
    Read(u64),
    Allow(u64),
    Write(u64),
}

#[derive(Default)]
pub(in crate::space::tests) struct State {
    pages: BTreeMap<u64, Vec<u8>>,
    events: Vec<Event>,
    /// Answers to the next calls for a page, the last one first.
    answers: BTreeMap<u64, Vec<PageAnswer>>,
    /// Pages that were allowed to be stored to, and not written since.
    allowed: BTreeSet<u64>,
}

impl State {
    /// Answers that are left for a page.
    pub fn nr_answers(&self, page: u64) -> usize {
        self.answers.get(&page).map_or(0, Vec::len)
    }
}

/// One file. A page that was never written is zeros.
#[derive(Default)]
pub(in crate::space::tests) struct Disk {
    pub len_bytes: u64,
    pub state: Mutex<State>,
    /// The page whose writing panics next, plus one; 0: none.
    pub panics_at: AtomicU64,
}

impl Disk {
    pub fn events(&self) -> Vec<Event> {
        core::mem::take(&mut self.state.lock().unwrap().events)
    }

    /// The first byte of a page on the disk.
    pub fn byte(&self, page: u64) -> u8 {
        self.state.lock().unwrap().pages.get(&page).map_or(0, |bytes| bytes[0])
    }

    pub fn put(&self, page: u64, byte: u8) {
        self.state.lock().unwrap().pages.insert(page, std::vec![byte; PAGE as usize]);
    }

    pub fn bytes(&self, page: u64) -> Vec<u8> {
        self.state.lock().unwrap().pages.get(&page).cloned().unwrap_or_default()
    }

    /// The next calls for the page are answered so, in order; then as ever.
    pub fn answer(&self, page: u64, answers: &[PageAnswer]) {
        let answers = answers.iter().rev().copied().collect();
        self.state.lock().unwrap().answers.insert(page, answers);
    }

    /// The next call to write the page panics.
    pub fn panic_at(&self, page: u64) {
        self.panics_at.store(page + 1, SeqCst);
    }

    fn next_answer(state: &mut State, page: u64) -> PageAnswer {
        state.answers.get_mut(&page).and_then(Vec::pop).unwrap_or(PageAnswer::Ready)
    }
}

impl Pager<TestMachine> for Disk {
    fn try_page(&self, _: PagerKey, page: u64, into: &mut PageFill<'_, TestMachine>) -> PageAnswer {
        let mut state = self.state.lock().unwrap();
        state.events.push(Event::Read(page));
        let answer = Self::next_answer(&mut state, page);
        if let Some(bytes) = state.pages.get(&page).filter(|_| answer == PageAnswer::Ready) {
            into.write(0, bytes);
        }
        answer
    }
    fn size_bytes(&self, _: PagerKey) -> u64 {
        self.len_bytes
    }
    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }
    fn try_make_writable(&self, _: PagerKey, page: u64) -> PageAnswer {
        let mut state = self.state.lock().unwrap();
        state.events.push(Event::Allow(page));
        let answer = Self::next_answer(&mut state, page);
        if answer == PageAnswer::Ready {
            state.allowed.insert(page);
        }
        answer
    }
    fn write_back(&self, _: PagerKey, page: u64, from: &PageContents<'_, '_, TestMachine>) -> PageAnswer {
        let is_it = self.panics_at.compare_exchange(page + 1, 0, SeqCst, SeqCst).is_ok();
        assert!(!is_it, "a pager that panics");
        let mut bytes = std::vec![0; from.len()];
        from.read(0, &mut bytes);
        let mut state = self.state.lock().unwrap();
        state.events.push(Event::Write(page));
        let answer = Self::next_answer(&mut state, page);
        if answer == PageAnswer::Ready {
            state.allowed.remove(&page);
            bytes.resize(PAGE as usize, 0);
            state.pages.insert(page, bytes);
        }
        answer
    }
}

pub(in crate::space::tests) type File<'v> = ObjectHandle<'v, TestMachine>;

/// Runs the test under both proofs with a file of so many pages and an empty space.
pub(in crate::space::tests) fn with_disk(pages: u64, test: impl Fn(&TestVm<'_>, Space<'_>, &Disk)) {
    for path in [Path::Speculative, Path::Locked] {
        let disk = Disk { len_bytes: pages * PAGE, ..Disk::default() };
        let machine = TestMachine::with_cpus(1500, 2);
        machine.run_as(0);
        let vm = vm_with(&machine, VmOptions { pager: Some(&disk), ..VmOptions::default() });
        on(&vm, path, |vm, space| test(vm, space, &disk));
    }
}

/// The file.
pub(in crate::space::tests) fn open<'v>(vm: &'v TestVm<'_>) -> File<'v> {
    ObjectHandle::paged(vm, FILE).unwrap()
}
