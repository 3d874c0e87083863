//! The phases of a loom model in which it has one thread: before it spawns any, and once all are joined.
//!
//! With one thread there is one order, so neither loom's atomics nor its fences have anything to decide: the
//! bare words are accessed (see `shadow`), and fences are left out. Spawning and joining order everything
//! that came before, and what a fence of such a phase would have added to later ones, the spawned threads
//! know. Most of a model's accesses are of its preparation: this makes models of spaces several times faster,
//! with the same executions.
//!
//! The phases are those of the thread that `run_model` begins with, and of [`spawn`] and
//! [`JoinHandle::join`]. The first access of a word in such a phase is a panic where it is that of a thread
//! that was spawned otherwise.

#[cfg(test)]
use super::shadow;
use core::cell::Cell;
use core::hash::{BuildHasherDefault, Hasher};
use core::ops::Range;
use loom::thread::ThreadId;
#[cfg(test)]
pub use loom::thread::yield_now;
use std::collections::HashMap;
use std::vec::Vec;

std::thread_local! {
    /// The first thread of the model, if `run_model` runs it. loom's threads all run in one of the host's.
    static FIRST: Cell<Option<ThreadId>> = const { Cell::new(None) };
    /// Number of spawned threads that were not joined.
    static SPAWNED: Cell<usize> = const { Cell::new(0) };
}

/// Begins an execution.
#[cfg(test)]
pub(super) fn begin() {
    FIRST.set(Some(loom::thread::current().id()));
    SPAWNED.set(0);
    shadow::drop_noted();
}

/// Whether there is only one thread.
pub(super) fn is_single() -> bool {
    SPAWNED.get() == 0 && FIRST.get().is_some()
}

/// Asserts that this is the thread that `run_model` began with. loom looks a thread up by a hash: asked at
/// each access, that took a tenth of the time of the models.
fn assert_first() {
    let this = Some(loom::thread::current().id());
    assert!(this == FIRST.get(), "a thread that sync::testing did not spawn");
}

/// A thread that can be joined.
#[cfg(test)]
#[derive(Debug)]
pub struct JoinHandle<T>(loom::thread::JoinHandle<T>);

/// Spawns a thread of the model.
#[cfg(test)]
#[track_caller]
pub fn spawn<T: 'static>(thread: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    if SPAWNED.get() == 0 {
        shadow::make_noted();
    }
    SPAWNED.set(SPAWNED.get() + 1);
    JoinHandle(loom::thread::spawn(thread))
}

/// Runs `other` in a thread of the model beside `own`, as a job's helper beside its caller: both have ended
/// when this returns, so they may borrow.
#[cfg(test)]
pub fn beside<R>(other: impl FnOnce(), own: impl FnOnce() -> R) -> R {
    use std::boxed::Box;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    let other: Box<dyn FnOnce() + '_> = Box::new(other);
    // SAFETY: only the lifetime changes. The thread is joined below, also where `own` unwinds, so that what
    // `other` borrows outlives it.
    let other: Box<dyn FnOnce() + 'static> = unsafe { core::mem::transmute(other) };
    let thread = spawn(other);
    let own = catch_unwind(AssertUnwindSafe(own));
    let ended = thread.join();
    own.and_then(|own| ended.map(|()| own)).unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
impl<T> JoinHandle<T> {
    /// Waits for the thread's end, and returns its result, or what it panicked with.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        let result = self.0.join();
        SPAWNED.set(SPAWNED.get() - 1);
        result
    }
}

/// Hashes the address of a word: one multiplication, as each access of a phase with one thread looks one up.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("an address is a usize");
    }

    fn write_usize(&mut self, address: usize) {
        // The upper bits of the product depend on all bits of the address; a table looks at lower ones first.
        self.0 = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Words and their values, in the order of their first accesses.
#[derive(Debug)]
pub(super) struct Noted<T> {
    words: Vec<Option<(usize, T)>>,
    /// Index in `words` by address.
    by_address: HashMap<usize, usize, BuildHasherDefault<AddressHasher>>,
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self { words: Vec::new(), by_address: HashMap::default() }
    }
}

impl<T> Noted<T> {
    /// Notes the value of a word.
    pub(super) fn note(&mut self, address: usize, value: T) {
        let index = *self.by_address.entry(address).or_insert(self.words.len());
        if index == self.words.len() {
            assert_first();
            self.words.push(None);
        }
        self.words[index] = Some((address, value));
    }

    /// Drops the notes of words in `range`.
    pub(super) fn forget(&mut self, range: &Range<usize>) {
        let words = &mut self.words;
        self.by_address.retain(|address, index| {
            let stays = !range.contains(address);
            if !stays {
                words[*index] = None;
            }
            stays
        });
    }

    /// The words and their values.
    pub(super) fn into_words(self) -> impl Iterator<Item = (usize, T)> {
        self.words.into_iter().flatten()
    }
}
