//! Recording a real program: everything it and its children do to their memory, and nothing lost.
//!
//! ```text
//!   us                                   the program
//!   fork it, held at a gate              waits
//!   open events on it (sources.rs)       waits
//!   seize it (ptrace)                    waits
//!   open the gate                        exec ... stops when the program is loaded
//!   read its map: the trace's header     stopped
//!   tracer.rs follows its stops          runs, faults, calls, forks
//!   writer.rs empties the rings          ...
//!   the last process is over: account, footer
//! ```
//!
//! A recording either is whole or fails. Lost records are detected in three ways: the kernel's own lost
//! records, its count of lost samples (which includes the last ones, that no record follows), and the counter
//! of resolved faults, which must not exceed what was recorded.

pub mod account;
pub mod decode;
mod ending;
pub mod host;
pub mod merge;
mod page_cache;
pub mod privilege;
pub mod procfs;
pub mod raw;
mod refusal;
mod sources;
pub mod tracepoint;
mod tracer;
mod writer;

pub use refusal::Refusal;
pub use writer::Progress;

use crate::os::end_requests::EndRequests;
use crate::os::process::{self, ChildOutput, HeldChild, monotonic_ns};
use crate::os::ptrace::{self, Calls, Change, PtraceStop};
use crate::trace::header::{Extent, Footer, Header, ProcessCount};
use crate::trace::writer::TraceWriter;
use account::Outside;
use ending::Ending;
use page_cache::PageCache;
use sources::{FaultCounters, Sources};
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::SystemTime;
use tracer::Tracer;
use writer::{Writing, Written};

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// How much to record.
    pub extent: Extent,
    /// The size of the ring of each CPU, bytes, a power of two.
    pub ring_bytes: usize,
    /// Where the command's standard output goes.
    pub output: ChildOutput,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The trace's header.
    pub header: Header,
    /// The trace's footer.
    pub footer: Footer,
    /// Whether tracefs had to be mounted, and has been.
    pub mounted_tracefs: bool,
}

/// Records `options.command` into `out`. Returns when all that the command started is over.
///
/// # Errors
/// There is no recording.
pub fn record<W: Write + Send>(
    options: &Options,
    out: W,
    progress: Progress<'_>,
) -> Result<Recording, Refusal> {
    record_until(options, None, out, progress)
}

/// As [`record`]; a signal that `requests` tell ends what the command started, and with it the recording,
/// which is whole.
///
/// # Errors
/// There is no recording.
pub fn record_until<W: Write + Send>(
    options: &Options,
    requests: Option<&EndRequests>,
    out: W,
    progress: Progress<'_>,
) -> Result<Recording, Refusal> {
    let mut child = HeldChild::spawn(&options.command, options.output)?;
    let pid = child.pid();
    let result = record_held(options, requests, &mut child, out, progress);
    if result.is_err() {
        // Whatever failed, no process of the command stays behind. If it is over already, the signal reaches
        // no other process: its number stays ours until it is waited for.
        abandon(pid);
    }
    result
}

fn abandon(pid: u32) {
    process::kill(pid);
    while let Ok(Some((tid, change))) = ptrace::wait() {
        let _ = match change {
            Change::Stopped(_) => {
                process::kill(tid);
                ptrace::resume(tid, Calls::Run, 0)
            }
            Change::Over => ptrace::reap(tid).map(drop),
            Change::Gone(_) => Ok(()),
        };
    }
}

fn record_held<W: Write + Send>(
    options: &Options,
    requests: Option<&EndRequests>,
    child: &mut HeldChild,
    out: W,
    progress: Progress<'_>,
) -> Result<Recording, Refusal> {
    let pid = child.pid();
    let sources = Sources::open(options.extent, pid, options.ring_bytes)?;
    ptrace::seize(pid).map_err(|e| Refusal::host(format!("ptrace: {e}")))?;
    child.release()?;
    wait_for_exec(child, &options.command)?;
    let start = Start::at_exec(pid, &sources.counters)?;
    let header = Header { page_cache: sources.page_cache, ..header(options, pid)? };
    let calls = if options.extent == Extent::Partial { Calls::Stop } else { Calls::Run };
    let Sources { samples, rings, counters, mounted_tracefs, page_cache } = sources;
    let cache = &PageCache::new(page_cache);
    let trace = TraceWriter::new(out, &header)?;
    let (sender, receiver) = mpsc::channel();
    let start_ns = start.time_ns;
    let writing = Writing { samples, rings, tracer: receiver, trace, cache, start_ns, progress };
    let ending = Ending::default();
    let tracer = Tracer::new(pid, start.counted, calls, sender, &ending, cache);
    let (processes, written) = thread::scope(|scope| {
        let writer = scope.spawn(|| writing.run());
        if let Some(requests) = requests {
            let ending = &ending;
            scope.spawn(move || ending.follow(requests));
        }
        let processes = tracer.run(pid, &header.image);
        requests.into_iter().for_each(EndRequests::end);
        let written = writer.join().unwrap_or_else(|_| Err(Refusal::host("the writing thread failed")));
        (processes, written)
    });
    let footer = Footer { stopped_by: ending.stopped_by(), ..Footer::default() };
    let footer = conclude(footer, options.extent, &start, processes?, written?, &counters)?;
    Ok(Recording { header, footer, mounted_tracefs })
}

/// The state when the program had been loaded.
struct Start {
    time_ns: u64,
    counted: u64,
    completed: u64,
}

impl Start {
    fn at_exec(pid: u32, counters: &FaultCounters) -> Result<Start, Refusal> {
        let (counted, completed) = (procfs::counted_faults(pid)?, counters.completed()?);
        Ok(Start { time_ns: monotonic_ns(), counted, completed })
    }
}

fn wait_for_exec(child: &mut HeldChild, command: &[OsString]) -> Result<(), Refusal> {
    loop {
        match ptrace::wait()? {
            Some((_, Change::Stopped(PtraceStop::Exec(_)))) => return Ok(()),
            Some((tid, Change::Stopped(PtraceStop::Signal(signal)))) => {
                ptrace::resume(tid, Calls::Run, signal)?
            }
            Some((tid, Change::Stopped(_))) => ptrace::resume(tid, Calls::Run, 0)?,
            Some((tid, Change::Over)) => drop(ptrace::reap(tid)?),
            Some((_, Change::Gone(_))) => {}
            None => {
                let name = command.first().map(|c| c.to_string_lossy().into_owned()).unwrap_or_default();
                return Err(Refusal::Command(format!("cannot run '{name}': {}", child.failure())));
            }
        }
    }
}

fn header(options: &Options, pid: u32) -> Result<Header, Refusal> {
    let image = procfs::image(pid)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Header {
        command: options.command.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        pid,
        extent: options.extent,
        host: host::host(),
        limits: host::limits(),
        page_cache: false,
        environment_bytes: image.layout.env_end.saturating_sub(image.layout.env_start),
        started_unix_s: since.as_secs(),
        image,
    })
}

/// Ends the trace, if it is one: nothing lost, something there, the account balanced.
fn conclude<W: Write>(
    begun: Footer,
    extent: Extent,
    start: &Start,
    mut processes: Vec<ProcessCount>,
    written: Written<W>,
    counters: &FaultCounters,
) -> Result<Footer, Refusal> {
    let Written { trace, process_counts, lost, rings } = written;
    let unwritten: u64 = rings.iter().map(|r| Ok(r.event().count_and_lost()?.1)).sum::<io::Result<u64>>()?;
    let lost = lost.max(unwritten + counters.lost()?);
    if lost > 0 {
        let size = rings.first().map_or(0, |r| r.data_bytes() >> 10);
        return Err(Refusal::lost(format!("{lost} records did not fit rings of {size} KiB; see --ring-mib")));
    }
    let completed = counters.completed()?.saturating_sub(start.completed);
    let account = process_counts.balance(&mut processes, Outside { completed, extent });
    if account.recorded == 0 {
        return Err(Refusal::lost("no fault was recorded at all"));
    }
    if account.recorded < account.completed {
        let missing = account.completed - account.recorded;
        return Err(Refusal::lost(format!("the kernel resolved {missing} faults that no record tells of")));
    }
    let status = processes.first().map_or(0, |p| p.status);
    let duration_ns = monotonic_ns().saturating_sub(start.time_ns);
    let footer = Footer { duration_ns, status, lost, processes, account, ..begun };
    Ok(trace.finish(footer)?.1)
}
