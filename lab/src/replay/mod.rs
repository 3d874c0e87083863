//! Replay: a recorded program runs again, on our address space.
//!
//! ```text
//!   trace ─► life: exec to exit ─► steps ─► player ─────────────► the library, on real memory
//!   reader    or fork to exit       acts     TLB touches, calls, forks
//!                                              │ judge: each answer, each fault, the final map
//!                                              ▼
//!                                            differences by kind ─► report
//! ```
//!
//! | file | what |
//! |---|---|
//! | `life` `cut` | cuts a trace into address spaces, each from exec or fork to its end |
//! | `refusals` | which of them refuse huge pages |
//! | `step` `act` `signals` | the action for each event, before the clock runs |
//! | `locked` `sealed` `unbuilt` | memory of kinds that the library does not have, followed |
//! | `setup` `memory_need` | the machine, and the space as it was at exec |
//! | `play` | the spaces of forks, each in its turns |
//! | `player` `remap` `fault_counts` | carries it out; mremap by map and unmap; counts of faults |
//! | `checker` `judge` `verdict` `final_map` `difference` | compares it with what Linux did |
//! | `blocks` `regions` `imposed` | what larger pages and imposed calls leave behind |
//! | `moves` `unsettled` `fork_windows` | calls and forks under way at the same time |
//! | `ranges` `spans` `page_set` | addresses that are noted, and forgotten page by page |
//! | `contention` | Linux's own times |
//! | `huge` `huge_setting` | signs of huge pages; the setting that a replay runs with |
//! | `resident` | resident memory, ours and Linux's |
//! | `timed` `times` | the same without a checker: against the zeroing it demands, beside Linux's times |
//! | `conclusion` | the report's first paragraph: what Linux spent on memory, and what the same takes here |
//! | `report` `huge_report` | the report |
//! | `shipped` | the traces of this repository |
//!
//! docs/design/replay.md says what is compared, what stands in for what, and which differences are explained.

#![forbid(unsafe_code)]

mod act;
mod blocks;
mod checker;
mod conclusion;
mod contention;
mod cut;
mod difference;
mod fault_counts;
mod final_map;
mod fork_windows;
mod huge;
mod huge_report;
mod huge_setting;
mod imposed;
mod judge;
mod life;
mod locked;
mod memory_need;
mod moves;
mod page_set;
mod play;
mod player;
mod ranges;
mod refusals;
mod regions;
mod remap;
mod report;
mod resident;
mod sealed;
mod setup;
pub mod shipped;
mod signals;
mod spans;
mod step;
mod timed;
mod times;
mod unbuilt;
mod unsettled;
mod verdict;

pub use conclusion::{Conclusion, Here, Recorded};
pub use contention::Contended;
pub use difference::{DifferenceKind, Differences, First};
pub use fault_counts::Faults;
pub use huge::HugePages;
pub use huge_setting::HugeSetting;
pub use life::{End, LeftOut};
pub use report::{CallRow, DifferenceRow, Evidence, LifeReport, Report};
pub use resident::ResidentLife;
pub use step::Way;
pub use timed::{Timed, TimedReplay};
pub use times::{CallTimes, FaultTimes, Times};
pub use verdict::{Agreed, CallCount};

use crate::trace::{Event, Header, Limits, TraceReader};
use checker::Checker;
use fault_counts::FaultCounts;
use interleaf::space::{Counter, Path};
use interleaf::units::CpuId;
use interleaf::vma::HugePolicy;
use life::Family;
use play::Visitor;
use player::Player;
use std::io::Read;
use step::Step;
use verdict::Filled;

/// A trace, decoded and cut.
pub struct Replay {
    header: Header,
    recorded: u64,
    families: Vec<Family>,
    left_out: LeftOut,
    huge: HugeSetting,
    linux: Recorded,
}

impl Replay {
    /// Reads a whole trace. Events take at most a quarter of this machine's memory.
    ///
    /// # Errors
    /// One line: the file is damaged, or too large to be replayed here.
    pub fn read<R: Read>(mut reader: TraceReader<R>) -> Result<Replay, String> {
        let most = host_memory_bytes() / 4 / (size_of::<Event>() + size_of::<Step>()) as u64;
        let mut events = Vec::new();
        while let Some(event) = reader.next().transpose().map_err(|damage| damage.to_string())? {
            if events.len() as u64 >= most {
                return Err(format!("more than {most} events, more than this machine's memory is for"));
            }
            events.push(event);
        }
        Replay::of(reader.header().clone(), events)
    }

    /// Reads a whole trace from memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_bytes(bytes: &[u8]) -> Result<Replay, String> {
        TraceReader::new(bytes).map_err(|damage| damage.to_string()).and_then(Replay::read)
    }

    /// Cuts a trace that has been read.
    ///
    /// # Errors
    /// One line: an event that no replay can perform, or more memory than this machine should give.
    pub fn of(header: Header, events: Vec<Event>) -> Result<Replay, String> {
        let recorded = events.len() as u64;
        let linux = Recorded::of(header.pid, &events);
        let (families, left_out) = cut::families(&header, events)?;
        let huge = HugeSetting::recorded(&header);
        let replay = Replay { header, recorded, families, left_out, huge, linux };
        replay.check_memory().map(|()| replay)
    }

    /// The same, with another setting of huge pages than the recorded machine's.
    ///
    /// # Errors
    /// One line: it needs more memory than this machine should give.
    pub fn with_huge_pages(mut self, policy: HugePolicy) -> Result<Replay, String> {
        self.set_huge_pages(policy).map(|()| self)
    }

    /// Sets that. If there is an error, it is set all the same.
    fn set_huge_pages(&mut self, policy: HugePolicy) -> Result<(), String> {
        self.huge = self.huge.with_policy(policy);
        self.check_memory()
    }

    /// The setting of huge pages.
    pub fn huge(&self) -> HugeSetting {
        self.huge
    }

    fn check_memory(&self) -> Result<(), String> {
        let needs = self.memory_bytes();
        if needs > host_memory_bytes() / 2 {
            return Err(format!(
                "replay needs {} MiB of memory, more than half of this machine's",
                needs >> 20
            ));
        }
        Ok(())
    }

    /// Memory of the machine that a replay asks for, bytes.
    pub fn memory_bytes(&self) -> u64 {
        setup::frames_for(&self.families, self.huge).saturating_mul(4096)
    }

    /// How many steps of progress [`check`](Self::check) tells at most.
    pub fn progress_steps(&self) -> usize {
        self.families.iter().flat_map(|family| &family.lives).map(|life| life.events.len() / 4096 + 1).sum()
    }

    /// Replays every life, compares everything, and looks for damage.
    ///
    /// # Errors
    /// One line: the machine cannot be had, or has no memory for a fork.
    pub fn check(&self, path: Path, mut progress: impl FnMut(&str)) -> Result<Report, String> {
        let machine = setup::machine(&self.families, self.huge).map_err(|error| error.to_string())?;
        let _cpu = machine.enter(CpuId(0));
        let vm = setup::vm(&machine, self.huge)?;
        let before = vm.memory().check().expect("frames add up at the start").allocated;
        let mut report = Report::new(&self.header, self.recorded, self.left_out, self.huge);
        report.huge = HugePages::of(&self.header, &self.families);
        for family in &self.families {
            let counted = vm.totals();
            let space = setup::space(&vm, setup::layout(&self.header, family), path, &family.lives[0])?;
            let counts = FaultCounts::default();
            let mut checking = Checking::new(family, self.header.limits, self.huge, &mut progress);
            play::play(family, &machine, space, self.header.limits.stack_bytes, &counts, &mut checking)?;
            let Checking { checkers, filled, .. } = checking;
            let (faults, totals) = (counts.faults(), vm.totals().since(&counted));
            assert_eq!(totals.get(Counter::PgFault), faults.raised, "Done + fallbacks + errors = faults");
            let copied = filled.iter().filter(|filled| matches!(filled, Filled::Copied(..))).count() as u64;
            assert_eq!(totals.get(Counter::CowCopied), copied, "copies counted, and frames that changed");
            vm.trim();
            let after = vm.memory().check().expect("frames add up after a life").allocated;
            assert_eq!(after, before, "frames handed out before and after a life");
            report.add_family(&faults, &filled, &totals);
            for (life, checker) in family.lives.iter().zip(checkers) {
                report.add(life, checker.verdict());
            }
        }
        assert_eq!(machine.violations(), [], "the TLB saw the impossible");
        Ok(report)
    }
}

/// The checkers of a family's lives.
struct Checking<'a, P> {
    checkers: Vec<Checker<'a>>,
    /// What pages got their frames by, in order.
    filled: Vec<Filled>,
    progress: P,
    family: &'a Family,
}

impl<'a, P: FnMut(&str)> Checking<'a, P> {
    fn new(family: &'a Family, limits: Limits, huge: HugeSetting, progress: P) -> Self {
        let checkers = family.each().map(|(life, steps)| Checker::new(life, steps, limits, huge)).collect();
        Checking { checkers, filled: Vec::new(), progress, family }
    }

    fn tell_progress(&mut self, life: usize) {
        (self.progress)(&self.family.lives[life].start.program);
    }
}

impl<P: FnMut(&str)> Visitor for Checking<'_, P> {
    fn step(&mut self, life: usize, at: usize, player: &Player<'_, '_>) {
        self.checkers[life].step(at, player, &mut self.filled);
        for range in self.checkers[life].take_removed() {
            let others = self.checkers.iter_mut().enumerate().filter(|(other, _)| *other != life);
            others.for_each(|(_, other)| other.note_removed(range.clone()));
        }
        if at % 4096 == 4095 {
            self.tell_progress(life);
        }
    }

    fn forked(&mut self, life: usize, child: usize, player: &Player<'_, '_>) {
        let [parent, child] = self.checkers.get_disjoint_mut([life, child]).expect("two lives");
        parent.forked(child, player);
    }

    fn end(&mut self, life: usize, player: &Player<'_, '_>) {
        self.checkers[life].end(player);
        self.tell_progress(life);
    }
}

/// Memory of this machine; without a bound where the host does not say.
fn host_memory_bytes() -> u64 {
    match crate::os::host_info::HostInfo::of_this_machine().memory_bytes {
        0 => u64::MAX,
        bytes => bytes,
    }
}
