//! The rules of [`Cpu`] and [`Machine`], tested: for authors of platforms.
//!
//! The suite runs on the machine itself. It needs two CPUs for the rules between CPUs, a few frames that are
//! in no other use, and a [`Harness`] that starts programs on CPUs and loads as user code does. It allocates
//! nothing and never panics; a rule that does not hold is named in the [`Report`].
//!
//! A wait for another CPU gives up after a second ([`Harness::patience_ns`]), and each that has given up
//! halves the patience of those that follow: so the suite ends within seconds on a machine that keeps no rule
//! of interrupts. A missing barrier shows by chance, and only where two CPUs run at once: where they never
//! did, the report says so ([`Verdict::NeverOverlapped`]).
//!
//! Two things it cannot test: that no second thread runs on a CPU whose preemption is off (it has no second
//! thread there), and that every access is reported to the observer (the door's tests do that). A machine
//! that loses wake-ups, or sleeps on a word that has changed, hangs; the harness must limit the time.
//!
//! | file | rules of |
//! |---|---|
//! | `cpu` | ids, clock, context, interrupt state, sleeping |
//! | `memory` | the window, tables as memory, zeroing and copying, record windows |
//! | `mmu` | translation, flushes, roots |
//! | `interrupts` | interrupts between CPUs, the barrier |
//! | `helpers` | helpers |
//!
//! `report` has the rules in words, and what a run found of each.
//!
//! ```
//! use interleaf::machine::conformance::{self, Harness, Report};
//! use interleaf::machine::Machine;
//! use interleaf::units::{PfnRange, VirtAddr};
//!
//! /// One CPU, which runs one program after the other, and has no MMU.
//! struct Inline;
//!
//! impl<M: Machine> Harness<M> for Inline {
//!     fn run(&self, _: &M, programs: &[&(dyn Fn() + Sync)]) {
//!         programs.iter().for_each(|program| program());
//!     }
//!     fn has_mmu(&self) -> bool {
//!         false
//!     }
//!     fn load(&self, _: &M, _: VirtAddr) -> Option<u64> {
//!         None
//!     }
//! }
//!
//! fn test<M: Machine>(machine: &M, frames: PfnRange) -> Report {
//!     // SAFETY: nothing else uses the machine yet.
//!     unsafe { conformance::run(machine, &Inline, frames) }
//! }
//! ```
//!
//! A platform's test asserts `report.holds()`, and prints the report, which names each rule. `examples/embed`
//! runs the suite on a platform of one CPU, `examples/cpus` on one of two.

mod cpu;
mod helpers;
mod interrupts;
mod memory;
mod mmu;
mod report;

pub use report::{Report, Rule, Verdict};

use super::{Cpu, Machine};
use crate::units::{CpuId, Order, PAGE_SIZE, Pfn, PfnRange, VirtAddr};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// The parts of a platform that the suite needs besides the machine.
pub trait Harness<M: Machine> {
    /// Runs `programs[n]` on CPU `n`, all at once; returns when all have returned. Nothing else runs on those
    /// CPUs.
    fn run(&self, machine: &M, programs: &[&(dyn Fn() + Sync)]);
    /// Runs `program` on CPU 0 while helpers exist. A platform whose helpers always exist needs nothing else.
    fn run_with_helper(&self, machine: &M, program: &(dyn Fn() + Sync)) {
        self.run(machine, &[program]);
    }
    /// Runs each program on the CPU that it is named with, all at once, several on one CPU, as ordinary
    /// threads that are always ready, while the helpers of those CPUs exist and are to share the CPU with
    /// them; returns when all have returned. False, and none is run, where the harness cannot do so: then
    /// [`Rule::HelperExpedited`] is not tested.
    fn run_beside_helpers(&self, machine: &M, programs: &[(CpuId, &(dyn Fn() + Sync))]) -> bool {
        let _ = (machine, programs);
        false
    }
    /// Whether the machine has an MMU. Where not, the rules of translation are not tested, and
    /// [`load`](Harness::load) is not called.
    fn has_mmu(&self) -> bool {
        true
    }
    /// Whether the suite may put frames behind a record window, where the machine has one. Two of its frames
    /// stay there, and others are taken for tables: none of them can be used afterwards.
    fn gives_frames_up(&self) -> bool {
        false
    }
    /// Loads 8 bytes as user code on this CPU does, through the loaded root; `None` if that is a page fault.
    fn load(&self, machine: &M, at: VirtAddr) -> Option<u64>;
    /// Nanoseconds after which a wait gives up and a rule counts as broken. Where the clock stands still it
    /// gives up after some 20 million polls.
    fn patience_ns(&self) -> u64 {
        1_000_000_000
    }
    /// Number of polls, each a call of [`Cpu::relax`], after which a wait gives up sooner.
    fn patience(&self) -> u64 {
        u64::MAX
    }
    /// Number of rounds of tests that depend on chance; fewer if they take longer than
    /// [`Harness::rounds_ns`].
    fn rounds(&self) -> u32 {
        20_000
    }
    /// Nanoseconds after which such rounds end.
    fn rounds_ns(&self) -> u64 {
        300_000_000
    }
}

/// Frames that the suite needs.
pub const FRAMES: u64 = 24;

/// Tests every rule. `frames` are at least [`FRAMES`] contiguous frames of the machine's memory that are in
/// no other use; no handler is set, and none is afterwards. Where the harness
/// [gives frames up](Harness::gives_frames_up), some of them stay in use.
///
/// # Panics
/// If the range holds fewer frames.
///
/// # Safety
/// Nothing else uses the frames, the CPUs' roots and the handlers until it returns.
pub unsafe fn run<M: Machine, H: Harness<M> + Sync>(machine: &M, harness: &H, frames: PfnRange) -> Report {
    assert!(frames.len() >= FRAMES, "the suite needs {FRAMES} frames");
    let suite = Suite {
        machine,
        harness,
        frames,
        tested: AtomicU64::new(0),
        broken: AtomicU64::new(0),
        apart: AtomicU64::new(0),
        gave_up: AtomicU32::new(0),
    };
    suite.memory();
    suite.cpu();
    if harness.has_mmu() {
        suite.mmu();
    }
    let number = run_number();
    suite.interrupts(interrupts::HandlerCounts(number));
    suite.helpers(helpers::HelperRun(number));
    suite.record_windows();
    let Suite { tested, broken, apart, .. } = suite;
    Report { tested: tested.into_inner(), broken: broken.into_inner(), apart: apart.into_inner() }
}

/// Number of runs that may be under way at once.
const RUNS: usize = 64;

/// A number below [`RUNS`], for statics: handlers get a number, and no reference.
fn run_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: the number only has to be unlike the others under way.
    NEXT.fetch_add(1, Relaxed) % RUNS
}

/// A run under way.
struct Suite<'a, M: Machine, H> {
    machine: &'a M,
    harness: &'a H,
    frames: PfnRange,
    /// Bit `n`: rule `n` was tested. Relaxed: read after the programs have joined.
    tested: AtomicU64,
    /// Bit `n`: rule `n` was found broken. Relaxed, as above.
    broken: AtomicU64,
    /// Bit `n`: the CPUs never ran at once in the test of rule `n`. Relaxed, as above.
    apart: AtomicU64,
    /// Waits that have given up. Relaxed: a hint.
    gave_up: AtomicU32,
}

/// Most times that the patience of a run is halved.
const MOST_HALVINGS: u32 = 5;
/// Polls of a wait for each look at the clock.
const POLLS_PER_LOOK: u64 = 64;
/// Polls of a wait where the clock stands still.
const POLLS_WITHOUT_CLOCK: u64 = 20_000_000;

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    /// Records a test of a rule.
    fn check(&self, rule: Rule, holds: bool) {
        self.tested.fetch_or(1 << rule as u8, Relaxed);
        if !holds {
            self.broken.fetch_or(1 << rule as u8, Relaxed);
        }
    }

    /// Notes that the CPUs never ran at once while a rule was tested.
    fn never_overlapped(&self, rule: Rule) {
        self.apart.fetch_or(1 << rule as u8, Relaxed);
    }

    /// Waits for `done`, up to the harness's patience, or less where waits have given up before. False if it
    /// did not come.
    fn wait(&self, done: impl Fn() -> bool) -> bool {
        let halvings = self.gave_up.load(Relaxed).min(MOST_HALVINGS);
        let (ns, polls) = (self.harness.patience_ns() >> halvings, self.harness.patience() >> halvings);
        let began = M::Cpu::now_ns();
        let is_too_late = |poll: u64| match M::Cpu::now_ns().saturating_sub(began) {
            0 => poll >= POLLS_WITHOUT_CLOCK >> halvings,
            passed => passed > ns,
        };
        for poll in 1..=polls {
            if done() {
                return true;
            }
            M::Cpu::relax();
            if poll % POLLS_PER_LOOK == 0 && is_too_late(poll) {
                break;
            }
        }
        self.gave_up.fetch_add(1, Relaxed);
        done()
    }

    /// Runs one program on CPU 0.
    fn on_one_cpu(&self, program: impl Fn() + Sync) {
        self.harness.run(self.machine, &[&program]);
    }

    /// Runs a program on CPUs 0 and 1, each with its number, if there are two CPUs.
    fn on_two_cpus(&self, program: impl Fn(u32) + Sync) {
        if self.machine.nr_cpus() > 1 {
            self.harness.run(self.machine, &[&|| program(0), &|| program(1)]);
        }
    }

    /// A barrier for one of two programs that share `meetings`: call `n` waits for the other program's call
    /// `n`. False if it does not come.
    fn meeting(&self, meetings: &AtomicU32) -> impl FnMut() -> bool {
        let mut round = 0;
        move || {
            round += 1;
            meetings.fetch_add(1, SeqCst);
            self.wait(|| meetings.load(SeqCst) >= 2 * round)
        }
    }

    /// Calls `f`, which uses the MMU, with preemption off, as the library does.
    fn with_preempt_off(&self, f: impl FnOnce(&M)) {
        M::Cpu::preempt_off();
        f(self.machine);
        // SAFETY: the one above; `f` has returned.
        unsafe { M::Cpu::preempt_on() };
    }

    /// Checks that a block is one of the suite's.
    fn assert_own(&self, pfn: Pfn, order: Order) {
        assert!(self.frames.covers(PfnRange::new(pfn, pfn.add(order.frames()))), "a frame that is not ours");
    }

    /// Where the bytes of a frame of the suite's are.
    fn bytes_of(&self, pfn: Pfn, offset: usize, len_bytes: usize) -> *mut u8 {
        self.assert_own(pfn, Order::BASE);
        assert!(offset <= PAGE_SIZE && len_bytes <= PAGE_SIZE - offset, "bytes beyond a frame");
        self.machine.window(pfn.addr()).as_ptr().wrapping_add(offset)
    }

    fn write_frame(&self, pfn: Pfn, offset: usize, from: &[u8]) {
        let to = self.bytes_of(pfn, offset, from.len());
        // SAFETY: a frame of the suite's, which nothing else uses (the contract of `run`), and which the
        // window shows whole.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }

    fn read_frame(&self, pfn: Pfn, offset: usize, to: &mut [u8]) {
        let from = self.bytes_of(pfn, offset, to.len());
        // SAFETY: as in `write_frame`.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    }

    fn zero_block(&self, pfn: Pfn, order: Order) {
        self.assert_own(pfn, order);
        // SAFETY: as in `write_frame`.
        unsafe { self.machine.zero(pfn, order) };
    }

    fn copy_block(&self, from: Pfn, to: Pfn, order: Order) {
        self.assert_own(from, order);
        self.assert_own(to, order);
        // SAFETY: as in `write_frame`.
        unsafe { self.machine.copy(from, to, order) };
    }
}
