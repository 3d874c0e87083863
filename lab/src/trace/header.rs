//! Description of a trace: where it was made (header) and its totals (footer).

use super::image::Image;
use serde::{Deserialize, Serialize};

/// Where, how and of what a trace was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// The process number of the command.
    pub pid: u32,
    /// Whether everything was recorded, or only what needs no privilege.
    pub extent: Extent,
    /// The machine and its kernel's settings.
    pub host: Host,
    /// Limits of the command's process.
    pub limits: Limits,
    /// Size of the environment, bytes; its content is not kept.
    pub environment_bytes: u64,
    /// Whether the page cache was followed: what it had of each mapped file, what came and what left.
    #[serde(default)]
    pub page_cache: bool,
    /// Seconds since 1970 at the start of the recording.
    pub started_unix_s: u64,
    /// The first image of the command: loaded, not an instruction run.
    pub image: Image,
}

/// How much was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Every fault of every mode with its kind of access, every call.
    #[default]
    Whole,
    /// Without privilege: faults of user mode, their access unknown; every call.
    Partial,
}

/// The machine that a trace was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release and version, as `uname` says them.
    pub kernel: String,
    /// Number of CPUs online.
    pub cpus: u32,
    /// Size of a page, bytes.
    pub page_bytes: u64,
    /// Physical memory, bytes.
    pub memory_bytes: u64,
    /// Kernel settings that affect memory: file under `/proc/sys` or `/sys`, and its text; and
    /// [`LOWEST_HINT`], which no file tells.
    pub settings: Vec<(String, String)>,
    /// The clock that times are of.
    pub clock: String,
}

/// Where Linux puts a mapping whose hint is one page, bytes: the address that it takes lower hints for. It is
/// built into the kernel, and may be above `mmap_min_addr`, which says what may be mapped at all.
pub const LOWEST_HINT: &str = "lowest hint";

/// The name among the settings of the bytes of swap, which with the memory bound what a call may commit.
pub const SWAP_BYTES: &str = "swap bytes";

/// Resource limits that affect memory, bytes; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// RLIMIT_STACK.
    pub stack_bytes: Option<u64>,
    /// RLIMIT_AS.
    pub address_space_bytes: Option<u64>,
    /// RLIMIT_DATA.
    pub data_bytes: Option<u64>,
    /// RLIMIT_MEMLOCK.
    pub locked_bytes: Option<u64>,
}

/// What a trace adds up to. A reader checks the counts at the end of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
    /// Number of events, all kinds.
    pub events: u64,
    /// Faults among them.
    pub faults: u64,
    /// Calls among them.
    pub calls: u64,
    /// How long the recording ran, nanoseconds.
    pub duration_ns: u64,
    /// Wait status of the command.
    pub status: i32,
    /// The signal to the recorder that ended the recording, and the command with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<i32>,
    /// Records of the kernel that were lost; a recording that lost any is not a trace.
    pub lost: u64,
    /// Every process, in order of its beginning.
    pub processes: Vec<ProcessCount>,
    /// How recorded faults and the kernel's own counts agree.
    pub account: Account,
}

/// One process and the faults the kernel counted for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessCount {
    /// Process number.
    pub pid: u32,
    /// Process number of its parent, 0 for the command itself.
    pub parent: u32,
    /// Number of its threads, those that ended included.
    pub threads: u32,
    /// Faults recorded.
    pub faults: u64,
    /// The kernel's `min_flt` and `maj_flt` for it, added, from its beginning (the command: from exec) to its
    /// end.
    pub counted: u64,
    /// Page faults it made that ended in SIGSEGV or SIGBUS, which the kernel does not count.
    pub signalled: u64,
    /// Pages that its calls asked the kernel to fault in: populate and mlock.
    pub asked_pages: u64,
    /// Wait status it ended with.
    pub status: i32,
    /// Whether its last map was seen.
    pub final_map: bool,
}

/// The account of faults: what the processor raised, what the kernel completed, what `rusage` says.
///
/// ```text
/// raised    recorded exceptions                         = completed + refused
/// completed the kernel's own counter of the same tree   = exceptions that were resolved
/// counted   minflt + majflt of every process            = completed + filled
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Faults in the trace.
    pub recorded: u64,
    /// Faults seen and left out: loading the command, before its first instruction.
    pub before_exec: u64,
    /// Exceptions that the kernel's software counters say it resolved, `before_exec` included.
    pub completed: u64,
    /// Exceptions that ended in a signal.
    pub signalled: u64,
    /// Exceptions in kernel mode that the kernel turned into an error of a call, or that met faults disabled.
    pub refused: u64,
    /// `minflt + majflt` of every process, from the command's exec on.
    pub counted: u64,
    /// Faults the kernel counted without an exception.
    pub filled: u64,
    /// Pages that calls asked for (populate, mlock), and programs started (each copies its arguments into a
    /// new stack): so many of them at most.
    pub filled_at_most: u64,
    /// Those beyond that, of calls that need a page and fault it in by hand: futexes, direct I/O, pinned
    /// pages. 0 in a partial trace, where it is not known.
    #[serde(default)]
    pub filled_otherwise: u64,
    /// Exceptions that do not balance when everything above is taken into account; 0 in a whole trace.
    pub unexplained: i64,
}

impl Header {
    /// Refuses a header that cannot be one.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.host.page_bytes != 4096 {
            return Err(format!("the header's page size is {} bytes", self.host.page_bytes));
        }
        self.image.check().map_err(|what| format!("the header's image is {what}"))
    }
}
