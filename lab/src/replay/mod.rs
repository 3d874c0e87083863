//! Replay: a recorded program runs again, on our address space.
//!
//! ```text
//!   trace ─► life: exec to exit ─► steps ─► player ─────────────► the library, on real memory
//!   reader    one address space     acts     TLB touches, calls
//!                                              │ judge: each answer, each fault, the final map
//!                                              ▼
//!                                            differences by kind ─► report
//! ```
//!
//! | file | what |
//! |---|---|
//! | `life` | cuts a trace into address spaces, each from exec to its end |
//! | `step` | the action for each event, decided before the clock runs |
//! | `setup` | the machine, and the space as it was at exec |
//! | `player` `remap` `fault_counts` | carries it out; mremap by map and unmap; counts of faults |
//! | `checker` `final_map` `difference` | compares it with what Linux did |
//! | `moves` `contention` | calls under way at the same time; Linux's own times |
//! | `huge` | signs of huge pages |
//! | `timed` `times` | the same without a checker: against the zeroing it demands, beside Linux's times |
//! | `report` | the report |
//! | `shipped` | the traces of this repository |
//!
//! docs/design/replay.md says what is compared, what stands in for what, and which differences are explained.

#![forbid(unsafe_code)]

mod checker;
mod contention;
mod difference;
mod fault_counts;
mod final_map;
mod huge;
mod life;
mod moves;
mod player;
mod remap;
mod report;
mod setup;
pub mod shipped;
mod step;
mod timed;
mod times;

pub use checker::{Agreed, CallCount};
pub use contention::Contended;
pub use difference::{DifferenceKind, Differences, First};
pub use fault_counts::Faults;
pub use huge::HugePages;
pub use life::{End, LeftOut};
pub use report::{CallRow, DifferenceRow, Evidence, LifeReport, Report};
pub use step::Way;
pub use timed::{Timed, TimedReplay};
pub use times::{CallTimes, FaultTimes, Times};

use crate::trace::{Event, Header, TraceReader};
use checker::{Checker, Verdict};
use interleaf::space::{Counter, Path};
use interleaf::units::CpuId;
use life::Life;
use player::Player;
use std::io::Read;
use step::{Step, Steps};

/// A trace, decoded and cut.
pub struct Replay {
    header: Header,
    recorded: u64,
    lives: Vec<(Life, Steps)>,
    left_out: LeftOut,
}

impl Replay {
    /// Reads a whole trace. Events take at most a quarter of this machine's memory.
    ///
    /// # Errors
    /// One line: the file is damaged, or too large to be replayed here.
    pub fn read<R: Read>(mut reader: TraceReader<R>) -> Result<Replay, String> {
        let most = memory_bytes() / 4 / (size_of::<Event>() + size_of::<Step>()) as u64;
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
        let (lives, left_out) = life::lives(&header, events);
        let with_steps = |life: Life| Ok((Steps::of(&life.events)?, life)).map(|(steps, life)| (life, steps));
        let lives = lives.into_iter().map(with_steps).collect::<Result<Vec<_>, String>>()?;
        let replay = Replay { header, recorded, lives, left_out };
        let needs = setup::frames_for(&replay.lives).saturating_mul(4096);
        if needs > memory_bytes() / 2 {
            return Err(format!(
                "replay needs {} MiB of memory, more than half of this machine's",
                needs >> 20
            ));
        }
        Ok(replay)
    }

    /// How many steps of progress [`check`](Self::check) tells at most.
    pub fn progress_steps(&self) -> usize {
        self.lives.iter().map(|(life, _)| life.events.len() / 4096 + 2).sum()
    }

    /// Replays every life, compares everything, and looks for damage.
    ///
    /// # Errors
    /// One line: the machine cannot be had.
    pub fn check(&self, path: Path, mut progress: impl FnMut(&str)) -> Result<Report, String> {
        let machine = setup::machine(&self.lives).map_err(|error| error.to_string())?;
        let _cpu = machine.enter(CpuId(0));
        let vm = setup::vm(&machine)?;
        let before = vm.memory().check().expect("frames add up at the start").allocated;
        let mut report = Report::new(&self.header, self.recorded, self.left_out);
        report.huge = HugePages::of(&self.header, &self.lives);
        for (life, steps) in &self.lives {
            let counted = vm.totals();
            let layout = setup::layout(&self.header, life, steps);
            let space = setup::space(&vm, layout, path, &life.start)?;
            let (verdict, faults) = {
                let _running = space.activate(None);
                let player = Player::new(&machine, &space, self.header.limits.stack_bytes);
                let checker = Checker::new(&player, life, steps, self.header.limits);
                let verdict: Verdict = checker.play(|| progress(&life.start.program));
                (verdict, player.counts.faults())
            };
            assert_eq!(
                vm.totals().since(&counted).get(Counter::PgFault),
                faults.raised,
                "Done + fallbacks + errors = faults"
            );
            drop(space);
            vm.trim();
            let after = vm.memory().check().expect("frames add up after a life").allocated;
            assert_eq!(after, before, "frames handed out before and after a life");
            report.add(life, verdict, &faults);
        }
        assert_eq!(machine.violations(), [], "the TLB saw the impossible");
        Ok(report)
    }
}

/// Memory of this machine; without a bound where the host does not say.
fn memory_bytes() -> u64 {
    match crate::os::host_info::HostInfo::of_this_machine().memory_bytes {
        0 => u64::MAX,
        bytes => bytes,
    }
}
