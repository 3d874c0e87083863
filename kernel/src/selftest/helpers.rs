//! A call whose helpers have begun ends soon, though more threads than CPUs spin meanwhile: helpers are
//! threads of idle priority, which are expedited.
//!
//! ```text
//!   caller, CPU 0    begins ─► a call on a large range ──────────────────────────────────► has ended
//!   helpers          idle CPUs: they visit the call ─┐ preempted          │ they go on ─► ┘
//!   starter, CPU 0   runs at the caller's next tick ─┴► wakes the others  │
//!   spinners         asleep                              spin, on all CPUs, until the call has ended
//! ```

use super::world::{fail, fresh_space};
use crate::arch::spaces::SpaceHandle;
use crate::arch::thread::{self, MAX_PARTS};
use crate::arch::{Core, MACHINE};
use crate::memory;
use crate::task::program;
use core::convert::Infallible;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::space::{Advice, MapRequest};
use interleaf::units::{PageSize, VirtAddr};
use interleaf::work::{Chunk, Job};
use interleaf_kernel::core::options::Options;

/// Bytes of the range, where that is less than a quarter of memory: enough for helpers of each call.
const BYTES: u64 = 96 << 20;
/// Nanoseconds after which a call counts as one that never ends. The host may stop the machine for long.
const PATIENCE_NS: u64 = 20_000_000_000;
/// Nanoseconds that the caller of a job waits for a helper to come, while all CPUs but its own are idle.
const COME_NS: u64 = 5_000_000_000;
/// Nanoseconds of a helper's chunk: some ticks.
const CHUNK_NS: u64 = 7_000_000;
/// Huge pages of the hugetlb pool.
const POOL_PAGES: u64 = 20;
/// Rounds of each call.
const ROUNDS: usize = 3;

/// The threads that spin, and what tells them when.
struct Contenders {
    /// Odd while a call is under way.
    call: AtomicU32,
    /// The call at which the starter wakes them. It sleeps on it.
    start_in: AtomicU32,
    /// The call during which they spin. They sleep on it.
    spin_in: AtomicU32,
    /// The call whose end they did not wait for; 0 for none.
    given_up: AtomicU32,
}

/// All is done.
const OVER: u32 = u32::MAX;

impl Contenders {
    /// The program of each spinner.
    fn spin(&self) {
        loop {
            let call = self.spin_in.load(SeqCst);
            if call == OVER {
                return;
            }
            let until = Core::now_ns() + PATIENCE_NS;
            while call != 0 && self.call.load(SeqCst) == call && self.given_up.load(SeqCst) != call {
                Core::relax();
                if Core::now_ns() > until {
                    self.given_up.store(call, SeqCst);
                }
            }
            Core::sleep(&self.spin_in, call);
        }
    }

    /// The starter's program: at its turn on the caller's CPU, a tick after a call has begun, it wakes the
    /// others.
    fn start(&self) {
        loop {
            let call = self.start_in.load(SeqCst);
            if call == OVER {
                return;
            }
            if call == self.call.load(SeqCst) {
                self.wake_spinners(call);
            }
            Core::sleep(&self.start_in, call);
        }
    }

    fn wake_spinners(&self, call: u32) {
        self.spin_in.store(call, SeqCst);
        Core::wake(&self.spin_in, u32::MAX);
    }

    /// Runs a call beside them, woken by the starter where it is `soon`. `None` where it had not ended; else
    /// the nanoseconds that it took.
    fn beside(&self, soon: bool, call: impl FnOnce()) -> Option<u64> {
        let (number, began_ns) = (self.call.fetch_add(1, SeqCst) + 1, Core::now_ns());
        if soon {
            self.start_in.store(number, SeqCst);
            Core::wake(&self.start_in, 1);
        }
        call();
        let took_ns = Core::now_ns() - began_ns;
        self.call.fetch_add(1, SeqCst);
        (self.given_up.load(SeqCst) != number).then_some(took_ns)
    }

    fn disperse(&self) {
        self.start_in.store(OVER, SeqCst);
        Core::wake(&self.start_in, 1);
        self.wake_spinners(OVER);
    }
}

/// Jobs, and each call on memory that helpers take part in, with threads that spin.
pub fn are_not_kept_waiting_for(options: &Options<'_>) -> bool {
    let before = program::frames_in_use();
    let [call, start_in, spin_in, given_up] = [const { AtomicU32::new(0) }; 4];
    let (contenders, held) = (Contenders { call, start_in, spin_in, given_up }, AtomicU32::new(0));
    let caller = || {
        held.store(u32::from(a_job(&contenders) && calls(&contenders, options)), SeqCst);
        contenders.disperse();
    };
    let (start, spin) = (|| contenders.start(), || contenders.spin());
    let nr = (2 * MACHINE.nr_cpus() as usize + 3).min(MAX_PARTS);
    let mut programs: [&(dyn Fn() + Sync); MAX_PARTS] = [&spin; MAX_PARTS];
    (programs[0], programs[1]) = (&caller, &start);
    thread::run_on(&programs[..nr], |n| if n < 2 { 1 } else { u64::MAX });
    held.load(SeqCst) == 1 && program::is_conserved(before)
}

/// A job of two chunks: the helper's wakes the spinners, and takes some ticks.
fn a_job(contenders: &Contenders) -> bool {
    let several = MACHINE.nr_cpus() > 1;
    // 1 from the beginning of the helper's chunk on, its duration from the end on.
    let helped_ns = AtomicU64::new(0);
    let as_caller = |began_ns: u64| {
        while several && helped_ns.load(SeqCst) == 0 && Core::now_ns() < began_ns + COME_NS {
            Core::relax();
        }
    };
    let as_helper = |began_ns: u64| {
        helped_ns.store(1, SeqCst);
        contenders.wake_spinners(contenders.call.load(SeqCst));
        while Core::now_ns() < began_ns + CHUNK_NS {
            Core::relax();
        }
        helped_ns.store(Core::now_ns() - began_ns, SeqCst);
    };
    let job = Job::new(0..2, |chunk: &Chunk<'_>| {
        let began_ns = Core::now_ns();
        if chunk.worker() == 0 {
            as_caller(began_ns)
        } else {
            as_helper(began_ns)
        }
        Ok::<(), Infallible>(())
    });
    let took_ns = contenders.beside(false, || _ = memory::workers().run(&job));
    let Some(took_ns) = took_ns else { return fail(format_args!("a job waits for its helper")) };
    let helped_us = helped_ns.load(SeqCst) / 1000;
    crate::println!(
        "a job beside spinning threads: {} us, its helper's chunk {helped_us} us",
        took_ns / 1000
    );
    helped_us > 0 || !several || fail(format_args!("no helper came to an idle CPU"))
}

/// Populates, drops, unmaps and ends large ranges, and resizes the hugetlb pool.
fn calls(contenders: &Contenders, options: &Options<'_>) -> bool {
    let bytes = BYTES.min(memory::mib() << 18).next_multiple_of(PageSize::Huge.bytes());
    let populate = |(space, at): &(SpaceHandle, VirtAddr)| {
        space.advise(*at, bytes, Advice::PopulateWrite).expect("a quarter of memory is free");
    };
    let mapped = || {
        let space = fresh_space(options).expect("there is memory for a space");
        let at = space.map(&MapRequest::anonymous(bytes)).expect("there is room");
        (space, at)
    };
    let populated = || {
        let mapped = mapped();
        populate(&mapped);
        mapped
    };
    let drop_contents =
        |(space, at): (SpaceHandle, VirtAddr)| space.advise(at, bytes, Advice::DontNeed).expect("mapped");
    let unmap = |(space, at): (SpaceHandle, VirtAddr)| space.unmap(at, bytes).expect("it is mapped");
    let resize = |pages| _ = memory::vm().resize_hugetlb(PageSize::Huge, pages);
    repeat(contenders, "populate", mapped, |mapped| populate(&mapped))
        && repeat(contenders, "MADV_DONTNEED", populated, drop_contents)
        && repeat(contenders, "munmap", populated, unmap)
        && repeat(contenders, "exit", populated, drop)
        && repeat(
            contenders,
            "a resize",
            || resize(options.huge_pool),
            |()| resize(options.huge_pool + POOL_PAGES),
        )
        && repeat(contenders, "a resize back", || (), |()| resize(options.huge_pool))
}

/// Repeats a call.
fn repeat<T>(contenders: &Contenders, what: &str, prepare: impl Fn() -> T, call: impl Fn(T)) -> bool {
    let helped_ns = || Core::with_context(|context| context.helper_ns());
    let (mut longest_ns, mut helped) = (0, 0);
    for _ in 0..ROUNDS {
        let prepared = prepare();
        let before = helped_ns();
        let Some(took_ns) = contenders.beside(true, || call(prepared)) else {
            return fail(format_args!("{what} waits for its helpers"));
        };
        longest_ns = longest_ns.max(took_ns);
        helped += u32::from(helped_ns() > before);
    }
    let us = longest_ns / 1000;
    crate::println!("{what} beside spinning threads: {us} us at most, {helped} of {ROUNDS} with helpers");
    true
}
