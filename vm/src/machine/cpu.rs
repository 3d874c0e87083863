//! The operations that running code has on its CPU.

use super::Context;
use crate::units::{CpuId, CpuWords};
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The kind of an access to shared memory, as the observation hook reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// An atomic load.
    Load,
    /// An atomic store.
    Store,
    /// An atomic read-modify-write, successful or not.
    Update,
    /// A plain load of data that a lock or a CPU owns.
    Read,
    /// A plain store to data that a lock or a CPU owns.
    Write,
    /// A fence; address and length are 0.
    Fence,
}

impl AccessKind {
    /// Whether the access takes the line for writing.
    pub const fn writes(self) -> bool {
        matches!(self, AccessKind::Store | AccessKind::Update | AccessKind::Write)
    }
}

/// The interrupt state that [`Cpu::interrupts_off`] found, for [`Cpu::interrupts_restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "interrupts stay off until the state is restored"]
pub struct Irq(pub usize);

/// The CPU that runs this code, and the thread it runs.
///
/// # Safety
///
/// Per-CPU data, read sections and locks of the library rely on the rules below. They bind the
/// implementation whatever safe code calls, and in whatever order: where a call would break a rule, it
/// panics, does not return, or has no effect.
///
/// Methods with a body keep the rules where one CPU runs one thread of the library's, and no handler of the
/// library interrupts it. A platform with more CPUs, threads or interrupts writes those that then break one.
///
/// A platform of *one CPU* refuses a second thread by the defaults of [`machine`](Cpu::machine) and
/// [`SEVERAL_MACHINES`](Cpu::SEVERAL_MACHINES): each thread is the one CPU of a machine of its own, and the
/// library panics where a thread comes to data of another one's CPU. What one thread has made is used by that
/// thread alone, then.
///
/// 1. *Number.* [`id`](Cpu::id) is below [`Machine::nr_cpus`](super::Machine::nr_cpus) of the machine that
///    the thread runs on, and stays the same from a [`preempt_off`](Cpu::preempt_off) to the matching
///    [`preempt_on`](Cpu::preempt_on); so does [`machine`](Cpu::machine). Both together are the CPU.
/// 2. *Exclusion.* From a `preempt_off` to the matching `preempt_on` no other thread runs on this CPU, and
///    the thread itself runs on no other: also while it calls [`relax`](Cpu::relax),
///    [`yield_now`](Cpu::yield_now) or [`sleep`](Cpu::sleep), and however deep the calls nest (an
///    implementation whose count would overflow panics). What a thread has done on a CPU with preemption off
///    happens before what the next thread does there. Interrupt handlers may run on the CPU meanwhile; each
///    runs to its end before the thread goes on, and where one has left preemption off, by a guard that it
///    forgot, the thread does not go on.
/// 3. *Context.* [`with_context`](Cpu::with_context) passes the one context of the running thread, which
///    began as [`Context::new`]. No other thread has a reference to it at the same time, and a thread's
///    context is not exchanged while the thread lives.
/// 4. *Waiting.* [`relax`](Cpu::relax), and so [`spin`](Cpu::spin), handles interrupts sent to this CPU (see
///    [`super::Callback`]) unless real interrupts do, or interrupts are off.
/// 5. *Sleeping.* [`sleep`](Cpu::sleep) returns at once if the word has changed, and at the latest when the
///    word's address is woken; it may return early. It accesses nothing of the library but the word, by
///    atomic loads, and not after it has returned. [`wake`](Cpu::wake) does not access the word. The library
///    does not call `sleep` with preemption or interrupts off, nor in an RCU read section.
/// 6. *Observation.* [`access`](Cpu::access) is called for every access through the door, before it happens,
///    if `OBSERVED` is true. It accesses nothing of the library, and may let other threads run as far as
///    rule 2 allows.
/// 7. *Interrupts.* From an [`interrupts_off`](Cpu::interrupts_off) until its state is restored no handler
///    runs on this CPU, but for one of NMIs or machine checks: that calls nothing of the library but what
///    takes a [`HandlerSection`](crate::sync::HandlerSection), and what makes one.
/// 8. *Machine.* [`machine`](Cpu::machine) is the number of the machine that the thread runs on. No other CPU
///    ever has the same two numbers, its own and its machine's, whatever its type. Where
///    [`SEVERAL_MACHINES`](Cpu::SEVERAL_MACHINES) is false, all threads that call the library with this type
///    run on CPUs of one machine.
pub unsafe trait Cpu: Sized + 'static {
    /// Whether [`access`](Cpu::access) is called. If not, the door compiles to plain instructions.
    const OBSERVED: bool = false;

    /// Whether threads of several machines call the library with CPUs of this type. If not, their numbers are
    /// not compared: then data of a CPU is found without one. A platform whose [`id`](Cpu::id) tells its CPUs
    /// apart, and which is one machine, says false. The default makes each thread a machine.
    const SEVERAL_MACHINES: bool = true;

    /// Asks the CPU to fetch the line of an address into its caches, soon and without waiting: a hint, which
    /// changes nothing. Sweeps over page tables ask for the records of frames that they will come to, one
    /// cache miss each where frames lie in no order. The address is one of the kernel's own, of a record; the
    /// caller holds a spin lock, so the function neither waits, traps nor calls the library. `None`, the
    /// default: nothing is looked up for it.
    const PREFETCH: Option<fn(usize)> = None;

    /// The words of a set of CPUs, as many as the platform's machines need: `[u64; 1]` for machines of up to
    /// 64 CPUs, `[u64; 64]` for 4 096. Sets lie in every space, in every work slot, and on stacks. A machine
    /// of more CPUs than they can name is refused when memory, a worker pool or a system is made of it.
    type CpuWords: CpuWords;

    /// Observes an access of `len` bytes at `addr`. `Location::caller()` is the place in the source.
    #[inline(always)]
    #[track_caller]
    fn access(addr: usize, len: usize, kind: AccessKind) {
        let _ = (addr, len, kind);
    }

    /// The CPU that this code runs on. The default is the only CPU.
    #[inline(always)]
    fn id() -> CpuId {
        CpuId(0)
    }

    /// The number of the machine that this code runs on. The default, where there may be several, is a number
    /// of the running thread's own.
    ///
    /// # Panics
    /// The default, once more than 2^32 threads have called it.
    #[inline(always)]
    fn machine() -> NonZeroU32 {
        if Self::SEVERAL_MACHINES { Self::with_context(Context::thread_number) } else { NonZeroU32::MIN }
    }

    /// Calls `f` with the state that the library keeps for the running thread.
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R;

    /// Called in every wait loop that another CPU ends, however long it takes: lets the other hardware thread
    /// go on and handles other CPUs' interrupts. The default is for CPUs whose interrupts come by themselves,
    /// or that get none.
    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    /// [`relax`](Cpu::relax) in a loop that is given up after so many rounds: waits for at least one round
    /// and at most `limit`, which is not 0, and returns how many have passed. The default is one round. Every
    /// bounded wait of the library calls this.
    ///
    /// A platform that knows that nothing changes of what the loop looks at may let several rounds pass in
    /// one call. It knows by [`access`](Cpu::access): no word is named, as loops look at several.
    #[inline(always)]
    fn spin(limit: u32) -> u32 {
        let _ = limit;
        Self::relax();
        1
    }

    /// Called by helpers between two pieces of work, holding nothing: lets a thread that waits for this CPU
    /// run first. Handles interrupts like [`relax`](Cpu::relax), which is the default.
    fn yield_now() {
        Self::relax();
    }

    /// Blocks the thread while `*word == expected`, until [`wake`](Cpu::wake) of the same address. The
    /// default returns early, after [`yield_now`](Cpu::yield_now): a platform that blocks threads writes both
    /// `sleep` and `wake`.
    fn sleep(word: &AtomicU32, expected: u32) {
        if word.load(SeqCst) == expected {
            Self::yield_now();
        }
    }

    /// Wakes up to `count` threads that sleep on `word`. The default is that of a platform where none blocks.
    fn wake(word: &AtomicU32, count: u32) {
        let _ = (word, count);
    }

    /// Begins to expedite the helper of `cpu`, this CPU or another one: a caller waits for it. Several may do
    /// so at once; it ends when each has called [`end_expedite`](Cpu::end_expedite). Until then the
    /// helper, where it is ready, waits for the CPU for one tick of other threads at most, however many are
    /// ready and whatever their priority is. They may take turns with it: a chunk may be long.
    ///
    /// The library calls it for each visit of a helper to a job, for helpers that an ordered queue has
    /// reserved, and for helpers that are dismissed; never in an interrupt handler, nor for a CPU that does
    /// not exist. The default is for a platform whose helpers are scheduled fairly, as ordinary threads. A
    /// platform that runs them only where no other thread is ready writes both methods, or callers wait
    /// without bound.
    fn expedite_helper(cpu: CpuId) {
        let _ = cpu;
    }

    /// Ends one [`expedite_helper`](Cpu::expedite_helper) of `cpu`. Has no effect where none has begun.
    fn end_expedite(cpu: CpuId) {
        let _ = cpu;
    }

    /// Turns interrupts off on this CPU and returns the state before. The default is for a platform on which
    /// no handler of the library's runs.
    #[inline(always)]
    fn interrupts_off() -> Irq {
        Irq(0)
    }

    /// Restores the interrupt state.
    ///
    /// # Safety
    /// `state` is the result of this thread's last [`interrupts_off`](Cpu::interrupts_off) that it has not
    /// restored yet. `sync::with_interrupts_off` calls both safely.
    #[inline(always)]
    unsafe fn interrupts_restore(state: Irq) {
        let _ = state;
    }

    /// Keeps the thread on this CPU, and other threads off it, until the matching
    /// [`preempt_on`](Cpu::preempt_on). Nests. The default is for one thread, or for threads that leave a CPU
    /// only where they ask to, outside of the library.
    #[inline(always)]
    fn preempt_off() {}

    /// Ends one [`preempt_off`](Cpu::preempt_off).
    ///
    /// # Safety
    /// It ends a `preempt_off` of this thread that is not ended yet, and on which nothing relies any more.
    /// `sync::PreemptGuard` calls both safely.
    #[inline(always)]
    unsafe fn preempt_on() {}

    /// Nanoseconds on a clock that never goes back on one CPU. It bounds how long a helper stays with a job,
    /// and is reported. The default, for a platform without a clock, is always 0.
    fn now_ns() -> u64 {
        0
    }
}
