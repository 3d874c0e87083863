//! For tests: memory from the host, never freed; and the one place that runs loom models.

use super::{Carve, MachineMemory};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use std::alloc::alloc;

/// Carves from the host's heap.
#[derive(Debug)]
pub struct Heap;

impl<'m> Carve<'m> for Heap {
    fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
        let not_empty = Layout::from_size_align(layout.size().max(1), layout.align()).ok()?;
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc(not_empty) };
        if at.is_null() {
            return None;
        }
        #[cfg(loom)]
        super::forget(at.addr()..at.addr() + layout.size());
        // SAFETY: the bytes were just allocated, and are never freed.
        Some(unsafe { core::slice::from_raw_parts_mut(at.cast(), layout.size()) })
    }
}

// SAFETY: nothing is ever freed.
unsafe impl<M> MachineMemory<'_, M> for Heap {
    fn outlives(&self, _: &M) -> bool {
        true
    }
}

/// The threads of models.
#[cfg(all(test, loom))]
pub(crate) use super::single_thread as thread;

/// No bound on preemptions.
#[cfg(all(test, loom))]
pub const UNBOUNDED: usize = usize::MAX;

/// Runs `model` in every execution with at most `preemptions` switches away from a thread that could go on,
/// and returns how many there were. Prints them with the bound and the time.
///
/// # Panics
/// If there was only one execution: then no two threads met, and the model shows nothing.
#[cfg(all(test, loom))]
pub fn run_model(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let executions: &'static AtomicUsize = std::boxed::Box::leak(std::boxed::Box::default());
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = (preemptions != UNBOUNDED).then_some(preemptions);
    loom.max_branches = 100_000;
    let began = std::time::Instant::now();
    loom.check(move || {
        executions.fetch_add(1, Relaxed);
        thread::begin();
        model();
    });
    let executions = executions.load(Relaxed);
    let bound =
        loom.preemption_bound.map_or(std::string::String::from("any"), |bound| std::format!("{bound}"));
    let (host, seconds) = (std::thread::current(), began.elapsed().as_secs_f32());
    let name = host.name().unwrap_or("unnamed");
    std::eprintln!("model {name}: preemptions {bound}, executions {executions}, seconds {seconds:.1}");
    assert!(executions > 1, "a model of one execution shows nothing");
    executions
}
