//! Sleeping on a word under loom: for real, without early returns, so that a lost wake-up is a deadlock that loom reports.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who sleeps on a word.
#[derive(Default)]
struct Sleepers {
    count: u32,
    woken: Option<Arc<Condvar>>,
}

loom::lazy_static! {
    static ref BY_WORD: Mutex<BTreeMap<usize, Sleepers>> = Mutex::new(BTreeMap::new());
}

/// Sleeps if the word is `expected`, until a wake-up that comes after the look.
pub(super) fn sleep(word: &AtomicU32, expected: u32) {
    let mut by_word = BY_WORD.lock().unwrap();
    if word.load(Relaxed) != expected {
        return;
    }
    let sleepers = by_word.entry(word.as_ptr() as usize).or_default();
    sleepers.count += 1;
    let woken = sleepers.woken.get_or_insert_with(|| Arc::new(Condvar::new())).clone();
    drop(woken.wait(by_word).unwrap());
}

/// Wakes up to `count` sleepers.
pub(super) fn wake(word: &AtomicU32, count: u32) {
    let mut by_word = BY_WORD.lock().unwrap();
    let Some(sleepers) = by_word.get_mut(&(word.as_ptr() as usize)) else { return };
    let Some(woken) = sleepers.woken.clone() else { return };
    let count = count.min(sleepers.count);
    sleepers.count -= count;
    (0..count).for_each(|_| woken.notify_one());
}
