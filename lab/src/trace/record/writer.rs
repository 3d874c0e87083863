//! The thread that turns the records of the rings and of the tracer into a trace, while the program runs.
//!
//! ```text
//!   rings --decode--+
//!                   +--> Merge --> Order --> TraceWriter --> file
//!   tracer ---------+
//! ```
//!
//! It sleeps until a ring is filled to its wakeup mark or a timeout has passed, so that a recorded program
//! keeps its CPU.

use super::Refusal;
use super::account::ProcessCounts;
use super::decode::{Said, Samples, decode};
use super::merge::{LAG_NS, Merge};
use super::page_cache::PageCache;
use super::raw::{Raw, What};
use crate::os::perf::{Ring, wait_for_any};
use crate::os::process::monotonic_ns;
use crate::trace::event::{Event, Kind};
use crate::trace::order::Order;
use crate::trace::writer::TraceWriter;
use std::io::Write;
use std::sync::mpsc::{Receiver, TryRecvError};

const SLEEP_MS: i32 = 50;
/// A task has one tracer, which is the recorder.
const PTRACE_FAILS: &str = "a recorded task calls ptrace, which fails as the recorder traces all tasks: \
debuggers do not work in a recording, and a task that stops for one stays stopped";

/// Called from time to time with the number of events written.
pub type Progress<'a> = Box<dyn FnMut(u64) + Send + 'a>;

/// What the thread works on.
pub struct Writing<'a, W: Write> {
    /// How to read a sample.
    pub samples: Samples,
    /// A ring for each CPU.
    pub rings: Vec<Ring>,
    /// Records of the tracer; the end of this channel ends the recording.
    pub tracer: Receiver<Raw>,
    /// Where the events go.
    pub trace: TraceWriter<W>,
    /// The files that were mapped so far.
    pub cache: &'a PageCache,
    /// The start of the recording by the clock, nanoseconds.
    pub start_ns: u64,
    /// Callback that reports progress.
    pub progress: Progress<'a>,
}

/// Result of the thread.
pub struct Written<W: Write> {
    /// The trace, without its footer.
    pub trace: TraceWriter<W>,
    /// What the events add up to.
    pub process_counts: ProcessCounts,
    /// Records lost, according to the LOST records.
    pub lost: u64,
    /// The rings, empty.
    pub rings: Vec<Ring>,
}

struct State<'a, W: Write> {
    merge: Merge,
    cache: &'a PageCache,
    order: Order,
    process_counts: ProcessCounts,
    lost: u64,
    /// Whether [`PTRACE_FAILS`] was said.
    warned: bool,
    start_ns: u64,
    trace: TraceWriter<W>,
}

impl<W: Write> Writing<'_, W> {
    /// Works until the tracer is done and every ring is empty.
    pub fn run(self) -> Result<Written<W>, Refusal> {
        let Writing { samples, mut rings, tracer, trace, cache, start_ns, mut progress } = self;
        let merge = Merge::new(rings.len() + 1);
        let (order, process_counts) = (Order::default(), ProcessCounts::default());
        let (lost, warned) = (0, false);
        let mut state = State { merge, cache, order, process_counts, lost, warned, start_ns, trace };
        let mut looked_ns = 0;
        loop {
            let (before_ns, looking_ns) = (looked_ns, monotonic_ns());
            looked_ns = looking_ns;
            let over = state.drain_tracer(&tracer, rings.len())?;
            for (cpu, ring) in rings.iter_mut().enumerate() {
                state.drain(cpu, ring, &samples)?;
            }
            state.write_before(if over { u64::MAX } else { before_ns.saturating_sub(LAG_NS) })?;
            progress(state.trace.progress().0);
            if over {
                break;
            }
            wait_for_any(&rings, SLEEP_MS);
        }
        state.order.finish(monotonic_ns());
        state.write_ordered()?;
        let State { process_counts, lost, trace, .. } = state;
        Ok(Written { trace, process_counts, lost, rings })
    }
}

impl<W: Write> State<'_, W> {
    /// Takes the records of the tracer; returns whether the tracer has ended.
    fn drain_tracer(&mut self, tracer: &Receiver<Raw>, source: usize) -> Result<bool, Refusal> {
        loop {
            match tracer.try_recv() {
                Ok(raw) => self.merge.push(source, raw).map_err(late)?,
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
    }

    fn drain(&mut self, cpu: usize, ring: &mut Ring, samples: &Samples) -> Result<(), Refusal> {
        let mut result = Ok(());
        ring.drain(|record| {
            if result.is_ok() {
                result = self.take(cpu, samples, record);
            }
        })?;
        result
    }

    fn take(&mut self, cpu: usize, samples: &Samples, record: &[u8]) -> Result<(), Refusal> {
        match decode(samples, record).map_err(Refusal::host)? {
            Said::Raw(raw) if raw.time_ns < self.start_ns => {
                self.process_counts.before_exec += u64::from(matches!(raw.what, What::Fault(_)));
            }
            Said::Raw(raw) => self.take_raw(cpu, raw)?,
            Said::Ptrace if !self.warned => {
                self.warned = true;
                eprintln!("interleaf: {PTRACE_FAILS}");
            }
            Said::Ptrace => {}
            Said::Lost(lost) => self.lost += lost,
            Said::Nothing => {}
        }
        Ok(())
    }

    /// Takes a record of a ring. After a mapping of a file comes what the page cache has of it; what becomes
    /// of files that no program has mapped is not kept.
    fn take_raw(&mut self, cpu: usize, raw: Raw) -> Result<(), Refusal> {
        let said = match &raw.what {
            What::Cache(change) if !self.cache.has(change.inode) => return Ok(()),
            What::Mapped(name, Some(inode)) => self.cache.look(name, *inode),
            _ => Vec::new(),
        };
        let Raw { time_ns, pid, tid, .. } = raw;
        self.merge.push(cpu, raw).map_err(late)?;
        let mut more = said.into_iter().map(|what| Raw { time_ns, pid, tid, what });
        more.try_for_each(|raw| self.merge.push(cpu, raw).map_err(late))
    }

    fn write_before(&mut self, horizon_ns: u64) -> Result<(), Refusal> {
        while let Some(raw) = self.merge.pop_before(horizon_ns) {
            self.order.push(raw);
            self.write_ordered()?;
        }
        Ok(())
    }

    fn write_ordered(&mut self) -> Result<(), Refusal> {
        while let Some(event) = self.order.pop() {
            let event = since(event, self.start_ns);
            self.process_counts.add(&event);
            self.trace.event(&event)?;
        }
        Ok(())
    }
}

/// The event with times counted from `start_ns`.
fn since(mut event: Event, start_ns: u64) -> Event {
    event.time_ns -= start_ns;
    if let Kind::Call(call) = &mut event.kind {
        call.start_ns -= start_ns;
        call.end_ns -= start_ns;
    }
    event
}

fn late(by_ns: u64) -> Refusal {
    Refusal::lost(format!("a record came {} ms too late to be put in order", by_ns / 1_000_000))
}
