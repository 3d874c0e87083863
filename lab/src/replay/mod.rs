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
//! | `thp_disable` | which of them have huge pages disabled |
//! | `filling` | frames that pages got |
//! | `page_history` `cached` | what Linux's page cache had of files; what it alone decided |
//! | `files` `objects` | the files that were mapped, by their numbers; as objects |
//! | `step` `act` `signals` | the action for each event, before the clock runs |
//! | `locked` `sealed` `unbuilt` | memory of kinds that the library does not have, followed |
//! | `setup` | the machine, and the space as it was at exec |
//! | `memory` `memory_need` `pieces` | how much memory that takes, and what is allowed |
//! | `play` | the spaces of forks, each in its turns |
//! | `player` `remap` `fault_counts` | carries it out; mremap by map and unmap; counts of faults |
//! | `checked` `checker` `judge` `verdict` `final_map` `difference` | compares it with what Linux did |
//! | `folios` `regions` `imposed` | what is noted for that: folios, huge pages, calls that are imposed |
//! | `moves` `unsettled` `fork_windows` `intervals` | calls and forks under way at the same time |
//! | `ranges` `spans` `page_set` | addresses that are noted, and forgotten range by range |
//! | `contention` | Linux's own times |
//! | `huge` `huge_setting` | signs of huge pages; the setting that a replay runs with |
//! | `resident` | resident memory, ours and Linux's |
//! | `timed` `times` | the same without a checker: against the zeroing it demands, beside Linux's times |
//! | `conclusion` | the report's first paragraph: what Linux spent on memory, and what the same takes here |
//! | `report` `huge_report` `file_report` `excerpt` | the report; what its text shows of long lists |
//! | `shipped` `made` | the traces of this repository; programs made up |
//!
//! docs/design/replay.md says what is compared, what stands in for what, and which differences are explained.

#![forbid(unsafe_code)]

mod act;
mod cached;
mod checked;
mod checker;
mod conclusion;
mod contention;
mod cut;
mod difference;
mod excerpt;
mod fault_counts;
mod file_report;
mod files;
mod filling;
mod final_map;
mod folios;
mod fork_windows;
mod huge;
mod huge_report;
mod huge_setting;
mod imposed;
mod intervals;
mod judge;
mod life;
mod locked;
pub mod made;
mod memory;
mod memory_need;
mod moves;
mod objects;
mod page_history;
mod page_set;
mod pieces;
mod play;
mod player;
mod ranges;
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
mod thp_disable;
mod timed;
mod times;
mod unbuilt;
mod unsettled;
mod verdict;

pub use checked::CheckedReplay;
pub use conclusion::{Conclusion, Here, Recorded};
pub use contention::Contended;
pub use difference::{DifferenceKind, Differences, First};
pub use fault_counts::Faults;
pub use file_report::MappedFiles;
pub use huge::HugePages;
pub use huge_setting::HugeSetting;
pub use life::{End, LeftOut};
pub use memory::Memory;
pub use report::{CallRow, DifferenceRow, Evidence, LifeReport, Report};
pub use resident::ResidentLife;
pub use step::Way;
pub use timed::{Timed, TimedReplay};
pub use times::{CallTimes, FaultTimes, Times};
pub use verdict::{Agreed, CallCount};

use crate::trace::{Event, Header, Kind, TraceReader};
use files::FileTable;
use interleaf::space::Path;
use interleaf::vma::HugePolicy;
use life::Family;
use std::io::Read;
use step::Step;

/// Memory that an event takes, bytes, with its step.
const BYTES_OF_EVENT: u64 = (size_of::<Event>() + size_of::<Step>()) as u64;

/// How many events are of programs, the files, and those events: what is told of files is no event of a
/// program.
fn split(header: &Header, mut events: Vec<Event>) -> (u64, FileTable, Vec<Event>) {
    let files = FileTable::of(header, &events);
    events.retain(|event| !matches!(event.kind, Kind::File(_) | Kind::Cache(_)));
    (events.len() as u64, files, events)
}

/// A trace, decoded and cut.
pub struct Replay {
    header: Header,
    recorded: u64,
    families: Vec<Family>,
    files: FileTable,
    left_out: LeftOut,
    huge: HugeSetting,
    linux: Recorded,
    /// What it may take.
    memory: Memory,
    /// Frames of the machine that it asks for.
    frames: u64,
}

impl Replay {
    /// Reads a whole trace, to be replayed in this machine's memory.
    ///
    /// # Errors
    /// One line: the file is damaged, or too large to be replayed here.
    pub fn read<R: Read>(reader: TraceReader<R>) -> Result<Replay, String> {
        Replay::read_within(reader, Memory::of_this_machine())
    }

    /// Reads a whole trace. Events take at most a quarter of the memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_within<R: Read>(mut reader: TraceReader<R>, memory: Memory) -> Result<Replay, String> {
        let most = memory.bytes / 4 / BYTES_OF_EVENT;
        let mut events = Vec::new();
        while let Some(event) = reader.next().transpose().map_err(|damage| damage.to_string())? {
            if events.len() as u64 >= most {
                return Err(memory.refuse_events(most, BYTES_OF_EVENT));
            }
            events.push(event);
        }
        Replay::within(memory, reader.header().clone(), events)
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
        Replay::within(Memory::of_this_machine(), header, events)
    }

    /// Cuts a trace that has been read, to be replayed in so much memory.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn within(memory: Memory, header: Header, events: Vec<Event>) -> Result<Replay, String> {
        let (recorded, files, events) = split(&header, events);
        let linux = Recorded::of(header.pid, &events);
        let (families, left_out) = cut::families(&header, events, &files)?;
        let huge = HugeSetting::recorded(&header);
        let mut replay =
            Replay { header, recorded, families, files, left_out, huge, linux, memory, frames: 0 };
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

    fn check_memory(&mut self) -> Result<(), String> {
        self.frames = setup::frames_for(&self.header, &self.families, &self.files, self.huge);
        let needs = self.memory_bytes();
        if needs <= self.memory.bytes {
            return Ok(());
        }
        let without_huge = self.huge.with_policy(HugePolicy::Never);
        let never = setup::frames_for(&self.header, &self.families, &self.files, without_huge);
        Err(self.memory.refuse_frames(needs, memory::of_both(never)))
    }

    /// Memory that a replay takes, bytes: of its machine, and of one more for its yardstick.
    pub fn memory_bytes(&self) -> u64 {
        memory::of_both(self.frames)
    }

    /// How many steps of progress [`check`](Self::check) tells at most.
    pub fn progress_steps(&self) -> usize {
        self.families.iter().flat_map(|family| &family.lives).map(|life| life.events.len() / 4096 + 1).sum()
    }

    /// Replays every life, compares everything, and looks for damage.
    ///
    /// # Errors
    /// One line: the machine cannot be had, or has no memory for a fork.
    pub fn check(&self, path: Path, progress: impl FnMut(&str)) -> Result<Report, String> {
        CheckedReplay::with(self, |ready| ready.check(path, progress))?
    }
}
