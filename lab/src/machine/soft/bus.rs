//! What the CPUs of one machine share: for each CPU a line that others raise, the thread that runs on it, and
//! the installed interrupt handler.

use super::run_queue::RunQueue;
use interleaf::units::CpuId;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

/// Another CPU asks this one to run the interrupt handler.
pub const INTERRUPT: u32 = 1;
/// A task waits for this CPU longer than a time slice.
pub const RESCHEDULE: u32 = 2;

/// No thread runs on the CPU.
const VACANT: u64 = 0;

/// An interrupt handler, bound to its machine.
pub type BoundHandler = Arc<dyn Fn() + Send + Sync>;

/// The lines by which the CPUs of one machine reach each other.
#[derive(Debug)]
pub struct Bus {
    id: u32,
    lines: Box<[Line]>,
    /// Whether a handler of interrupts is installed. Locked while it is exchanged.
    is_handled: Mutex<bool>,
}

/// One CPU's end of the bus.
#[repr(align(128))]
pub struct Line {
    /// [`INTERRUPT`] and [`RESCHEDULE`]. Set with a releasing `or`; the owner clears a bit with an
    /// acquiring `and`.
    pending: AtomicU32,
    /// Number of the host thread that runs here, or [`VACANT`]. Entering acquires what the thread before
    /// released.
    occupant: AtomicU64,
    /// The interrupt handler. One copy for each CPU, so that handling writes no shared line; locked while it
    /// runs, so that removing the handler waits for the CPUs that run it.
    handler: Mutex<Option<BoundHandler>>,
    /// The tasks that wait for this CPU.
    pub queue: RunQueue,
}

impl Bus {
    /// A bus for `nr_cpus` CPUs, with a number of its own in this process.
    ///
    /// # Panics
    /// Where every number was given out.
    pub fn new(nr_cpus: u32) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let line = |_| Line {
            pending: AtomicU32::new(0),
            occupant: AtomicU64::new(VACANT),
            handler: Mutex::new(None),
            queue: RunQueue::default(),
        };
        // Relaxed: the number only has to be unlike all others.
        let id = NEXT.fetch_update(Relaxed, Relaxed, |id| id.checked_add(1)).expect("numbers of machines");
        Self { id, lines: (0..nr_cpus).map(line).collect(), is_handled: Mutex::new(false) }
    }

    /// The number of this bus, never 0.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> u32 {
        self.lines.len() as u32
    }

    /// The line of `cpu`.
    ///
    /// # Panics
    /// Where there is no such CPU.
    #[inline]
    pub fn line(&self, cpu: CpuId) -> &Line {
        &self.lines[cpu.index()]
    }

    /// Installs the interrupt handler on every CPU, or removes it: returns once no CPU runs it. False, and no
    /// change, where another one is installed.
    pub fn set_interrupt_handler(&self, handler: Option<BoundHandler>) -> bool {
        let mut is_handled = self.is_handled.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_handled && handler.is_some() {
            return false;
        }
        for line in &self.lines {
            *line.handler.lock().unwrap_or_else(PoisonError::into_inner) = handler.clone();
        }
        *is_handled = handler.is_some();
        true
    }
}

impl Line {
    /// Sets pending bits.
    pub fn raise(&self, bits: u32) {
        self.pending.fetch_or(bits, SeqCst);
    }

    /// Clears pending bits; returns those that were set.
    pub fn lower(&self, bits: u32) -> u32 {
        self.pending.fetch_and(!bits, SeqCst) & bits
    }

    /// The pending bits. Relaxed: a bit is seen soon after it is set, and clearing it acquires.
    #[inline]
    pub fn pending_racy(&self) -> u32 {
        self.pending.load(Relaxed)
    }

    /// Runs the installed handler, if there is one. The caller runs on this CPU, with interrupts off.
    pub(super) fn run_interrupt_handler(&self) {
        let installed = self.handler.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handler) = &*installed {
            handler();
        }
    }

    /// Has `thread` occupy the CPU. False where another thread does.
    pub(super) fn try_occupy(&self, thread: u64) -> bool {
        self.occupant.compare_exchange(VACANT, thread, Acquire, Relaxed).is_ok()
    }

    /// Leaves the CPU vacant.
    pub(super) fn vacate(&self) {
        self.occupant.store(VACANT, Release);
    }

    /// Whether `thread` runs here.
    pub(super) fn is_occupied_by(&self, thread: u64) -> bool {
        // Relaxed: a thread sees its own stores.
        self.occupant.load(Relaxed) == thread
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("pending", &self.pending).field("occupant", &self.occupant).finish()
    }
}
