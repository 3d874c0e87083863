//! The thread that collapses base pages into huge ones in the background, as Linux's khugepaged does.
//!
//! ```text
//!   pass      process after process, region after region, until so many pages were looked at,
//!             or the end of the table is reached: that is a full scan
//!   between   the thread sleeps; the first tick of a CPU in ring 3 after so long begins the next pass
//! ```
//!
//! So there are passes only while programs run, and none without a timer. The thread has the priority of any
//! other: it locks spaces, and at idle priority would keep programs waiting for as long as others are ready.
//!
//! # Processes that end
//!
//! A space is looked up by its number, and held for one step. One that has begun to end is refused; one whose
//! last thread leaves meanwhile ends when the step does, on this thread. [`wait_until_nothing_is_held`] is
//! for code that counts frames behind the end of a program.

use crate::arch::Core;
use crate::memory;
use crate::task::process::PROCESSES;
use crate::task::sched;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};
use interleaf::machine::Cpu;
use interleaf::space::SpaceId;
use interleaf::units::{PageSize, Vpn};
use interleaf::vma::{CollapseLimits, CollapseRefusal};
use interleaf_kernel::core::options::Scan;

/// When the next pass is due; never before the thread sleeps. The store releases what the pass before did.
static DUE_NS: AtomicU64 = AtomicU64::new(NEVER);
const NEVER: u64 = u64::MAX;
/// Passes that were begun. The thread sleeps on it.
static PASSES: AtomicU32 = AtomicU32::new(0);
/// The thread may have a handle of a space.
static HOLDS: AtomicBool = AtomicBool::new(false);
// Relaxed: counts, and numbers that are set before the thread starts.
static PAGES_COLLAPSED: AtomicU64 = AtomicU64::new(0);
static FULL_SCANS: AtomicU64 = AtomicU64::new(0);
static PAGES_TO_SCAN: AtomicU32 = AtomicU32::new(0);
static SCAN_SLEEP_MS: AtomicU32 = AtomicU32::new(0);

/// What was set, and what has come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// How far a pass goes, and how long the thread sleeps behind it.
    pub scan: Scan,
    /// Huge pages that base pages were collapsed into.
    pub pages_collapsed: u64,
    /// How often the end of the table of processes was reached.
    pub full_scans: u64,
}

/// What was set, and what has come of it.
pub fn told() -> Told {
    let (pages, sleep_ms) = (PAGES_TO_SCAN.load(Relaxed), SCAN_SLEEP_MS.load(Relaxed));
    Told {
        scan: Scan { pages, sleep_ms },
        pages_collapsed: PAGES_COLLAPSED.load(Relaxed),
        full_scans: FULL_SCANS.load(Relaxed),
    }
}

/// Takes the numbers, and starts the thread where the policy ever gives huge pages. Called once.
pub fn start(scan: Scan, is_wanted: bool) {
    PAGES_TO_SCAN.store(scan.pages, Relaxed);
    SCAN_SLEEP_MS.store(scan.sleep_ms, Relaxed);
    if is_wanted && sched::spawn(main, u64::MAX).is_none() {
        crate::println!("khugepaged: there is no memory for its thread");
    }
}

/// Called at ticks: begins a pass that is due.
pub fn tick() {
    let due = DUE_NS.load(Relaxed);
    if due <= Core::now_ns() && DUE_NS.compare_exchange(due, NEVER, Acquire, Relaxed).is_ok() {
        PASSES.fetch_add(1, Release);
        Core::wake(&PASSES, 1);
    }
}

/// Waits until the thread has no handle of a space that has no other.
pub fn wait_until_nothing_is_held() {
    // Pairs with the fence in `scan`: either this sees that the thread may hold a space, or that finds it
    // ended.
    fence(SeqCst);
    // Acquire: what the step did, the end of a space included.
    while HOLDS.load(Acquire) {
        sched::yield_now();
    }
}

/// The thread.
extern "C" fn main(_: usize) {
    let mut at = Cursor { slot: 0, id: SpaceId(0), next: Vpn(0) };
    loop {
        let sleep_ns = u64::from(SCAN_SLEEP_MS.load(Relaxed)) * 1_000_000;
        // Nothing begins a pass before one is due.
        let seen = PASSES.load(Acquire);
        DUE_NS.store(Core::now_ns() + sleep_ns, Release);
        while PASSES.load(Acquire) == seen {
            Core::sleep(&PASSES, seen);
        }
        at.pass();
    }
}

/// Where the next step goes on.
struct Cursor {
    /// The process, by its place in the table.
    slot: usize,
    /// Its space, and the page. Another space is scanned from its start.
    id: SpaceId,
    next: Vpn,
}

impl Cursor {
    /// Steps until enough pages were looked at, no block is free, or the table ends.
    fn pass(&mut self) {
        let mut left = (PAGES_TO_SCAN.load(Relaxed) / PageSize::Huge.pages() as u32).max(1);
        while left > 0 && self.slot < PROCESSES.len() {
            match self.scan(left) {
                Some((_, Some(CollapseRefusal::NoMemory))) => return,
                Some((looked_at, _)) => left = left.saturating_sub(looked_at),
                None => (self.slot, self.next) = (self.slot + 1, Vpn(0)),
            }
        }
        if self.slot == PROCESSES.len() {
            self.slot = 0;
            FULL_SCANS.fetch_add(1, Relaxed);
        }
    }

    /// One step in the process's space: what was looked at, and the refusal that ended it. `None` where
    /// nothing of it is left.
    fn scan(&mut self, most: u32) -> Option<(u32, Option<CollapseRefusal>)> {
        let id = PROCESSES[self.slot].space_racy()?;
        if self.id != id {
            (self.id, self.next) = (id, Vpn(0));
        }
        HOLDS.store(true, Relaxed);
        // Pairs with the one in `wait_until_nothing_is_held`.
        fence(SeqCst);
        let step = memory::spaces().hold(id).map(|space| {
            // Dropped at the end of this: perhaps the last handle. No lock is held.
            space.scan_to_collapse(self.next, most, &CollapseLimits::LINUX)
        });
        HOLDS.store(false, Release);
        let step = step?;
        PAGES_COLLAPSED.fetch_add(u64::from(step.collapsed.is_some()), Relaxed);
        self.next = step.next;
        // At its start again, where no refusal has ended the step: all of the space was scanned.
        let is_done = step.next == Vpn(0);
        (!is_done).then_some((step.looked_at.max(1), step.refused))
    }
}
