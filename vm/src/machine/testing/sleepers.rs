//! Sleeping on a word under loom: without early returns, so that a lost wake-up is a deadlock that loom
//! reports. A CPU handles interrupts in its sleep.

use super::cpu;
use crate::machine::Cpu;
use crate::units::{CpuId, CpuMask};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::vec::Vec;

/// A thread asleep.
struct Sleeper {
    word: usize,
    cpu: CpuId,
    is_woken: bool,
    wake_up: Arc<Condvar>,
}

loom::lazy_static! {
    static ref ASLEEP: Mutex<Vec<Sleeper>> = Mutex::new(Vec::new());
}

/// Sleeps if the word is `expected`, until a wake-up that comes after that load.
pub(super) fn sleep(word: &AtomicU32, expected: u32) {
    let (at, cpu) = (word.as_ptr() as usize, super::TestCpu::id());
    let wake_up = Arc::new(Condvar::new());
    let mut asleep = ASLEEP.lock().unwrap();
    if word.load(Relaxed) != expected {
        return;
    }
    asleep.push(Sleeper { word: at, cpu, is_woken: false, wake_up: wake_up.clone() });
    loop {
        let own = asleep.iter().position(|sleeper| sleeper.word == at && sleeper.cpu == cpu).unwrap();
        if asleep[own].is_woken {
            asleep.swap_remove(own);
            return;
        }
        if cpu::is_interrupted() {
            drop(asleep);
            cpu::handle_interrupt();
            asleep = ASLEEP.lock().unwrap();
        } else {
            asleep = wake_up.wait(asleep).unwrap();
        }
    }
}

/// Wakes up to `count` sleepers.
pub(super) fn wake(word: &AtomicU32, count: u32) {
    let at = word.as_ptr() as usize;
    let mut asleep = ASLEEP.lock().unwrap();
    for sleeper in asleep.iter_mut().filter(|s| s.word == at && !s.is_woken).take(count as usize) {
        sleeper.is_woken = true;
        sleeper.wake_up.notify_one();
    }
}

/// Wakes sleepers on interrupted CPUs, which handle the interrupt.
pub(super) fn wake_interrupted(cpus: &CpuMask) {
    for sleeper in ASLEEP.lock().unwrap().iter().filter(|sleeper| cpus.contains(sleeper.cpu)) {
        sleeper.wake_up.notify_one();
    }
}
