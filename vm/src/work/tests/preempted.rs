//! Helpers of a CPU on which other threads are always ready: what callers wait for ends all the same.
//!
//! ```text
//!   CPU 0   the caller
//!   CPU 1   the helper, at the lowest priority ── from some instant on ──► threads that spin are ready:
//!           where the helper may be preempted, it goes on when it is expedited, or they are no more
//! ```

use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::testing::Heap;
use crate::units::{CpuId, CpuMask};
use crate::work::{Chunk, Job, WorkerPool};
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

type TestPool = WorkerPool<'static, TestMachine>;

/// When the threads that spin are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Never,
    /// Since the helper has begun its visit, until that ends.
    InVisits,
    Always,
}

/// The threads that spin on CPU 1, of a machine of two CPUs.
pub(crate) struct Spinners {
    machine: &'static TestMachine,
    pool: &'static TestPool,
    ready: Mutex<Ready>,
    /// The helper waits for the CPU.
    is_helper_kept: AtomicBool,
}

impl Spinners {
    /// None is ready yet; the helper of CPU 1 has started.
    pub(crate) fn new(pool: &'static TestPool) -> &'static Self {
        let (ready, is_helper_kept) = (Mutex::new(Ready::Never), AtomicBool::new(false));
        let spinners: &_ = Box::leak(Box::new(Self { machine: pool.machine(), pool, ready, is_helper_kept }));
        thread::spawn(|| {
            spinners.machine.run_as(1);
            TestCpu::when_preemptible(|| spinners.keep_helper());
            spinners.machine.run_helper();
        });
        while !pool.has_helper_racy(CpuId(1)) {
            thread::yield_now();
        }
        spinners
    }

    fn are_ready(&self) -> bool {
        match *self.ready.lock().unwrap() {
            Ready::Never => false,
            Ready::InVisits => self.pool.nr_visits() > 0,
            Ready::Always => true,
        }
    }

    fn keep_helper(&self) {
        while self.are_ready() && TestCpu::nr_expedited() == 0 {
            self.is_helper_kept.store(true, SeqCst);
            thread::yield_now();
        }
        self.is_helper_kept.store(false, SeqCst);
    }

    pub(crate) fn become_ready(&self, ready: Ready) {
        *self.ready.lock().unwrap() = ready;
    }

    fn wait_until_helper_is_kept(&self) {
        while !self.is_helper_kept.load(SeqCst) {
            thread::yield_now();
        }
    }

    /// Runs `call` as CPU 0. It must end while the threads are ready, if they are.
    pub(crate) fn must_end(&self, what: &str, call: impl FnOnce() + Send + 'static) {
        let (machine, (ended, end)) = (self.machine, mpsc::channel());
        thread::spawn(move || {
            machine.run_as(0);
            call();
            ended.send(()).unwrap();
        });
        let has_ended = end.recv_timeout(Duration::from_secs(10));
        assert!(has_ended.is_ok(), "{what} waits for a helper that is kept from its CPU");
    }
}

fn spinners() -> &'static Spinners {
    let machine = TestMachine::leaked(1, 2);
    machine.run_as(0);
    Spinners::new(Box::leak(Box::new(WorkerPool::spawn(machine, &mut Heap).unwrap())))
}

#[test]
fn the_caller_of_a_job_does_not_wait_for_the_threads_of_its_helpers_cpu() {
    let spinners = spinners();
    spinners.must_end("a job", move || {
        let helped = AtomicU32::new(0);
        let job = Job::new(0..64, |chunk: &Chunk<'_>| {
            if chunk.worker() > 0 {
                // From within the chunk on.
                spinners.become_ready(Ready::Always);
                helped.fetch_add(1, SeqCst);
            }
            while helped.load(SeqCst) == 0 {
                thread::yield_now();
            }
            Ok::<(), ()>(())
        });
        assert_eq!(spinners.pool.run(&job).unwrap().helpers, 1);
    });
    // Between visits it is kept.
    spinners.wait_until_helper_is_kept();
}

#[test]
fn a_helper_that_is_kept_from_its_cpu_is_dismissed() {
    let spinners = spinners();
    spinners.become_ready(Ready::Always);
    spinners.wait_until_helper_is_kept();
    spinners.must_end("a dismissal", move || spinners.pool.dismiss(CpuId(1)));
    assert!(!spinners.pool.has_helper_racy(CpuId(1)));
}

#[test]
fn items_of_an_ordered_queue_are_finished_on_a_cpu_where_other_threads_are_ready() {
    let spinners = spinners();
    spinners.must_end("an ordered queue", move || {
        let cpus: &CpuMask = &CpuMask::from_words([0b10]);
        let order = AtomicU32::new(0);
        let serial = |item: u32| assert_eq!((order.fetch_add(1, SeqCst), TestCpu::nr_expedited()), (item, 1));
        let queue = spinners.pool.ordered::<u32, _, _, _, 4>(
            (cpus, cpus),
            |_| (),
            serial,
            |queue| {
                spinners.become_ready(Ready::Always);
                (0..20).for_each(|item| queue.submit(item, CpuId(1)));
            },
        );
        assert_eq!((queue.unwrap().1.submitted, order.load(SeqCst)), (20, 20));
    });
    spinners.wait_until_helper_is_kept();
}
