//! A job as a value, the chunk that its function is given, and its result.

use crate::units::NodeMask;
use core::cell::Cell;
use core::fmt;
use core::ops::Range;

/// Description of work over a range. Nothing happens until a [`WorkerPool`](super::WorkerPool) runs it.
/// `W` is the function for a chunk: `Fn(&Chunk) -> Result<(), E>`. Chunks are disjoint, cover the range,
/// begin and end at multiples of the alignment, and hold at least the minimum, but for the two ends of the
/// range. Their order is not specified.
///
/// The caller waits for chunks that helpers have begun, and for one scheduler tick more at most, however
/// many other threads are ready: the minimum chunk should take a fraction of a millisecond. The function may
/// sleep, and run jobs of its own.
#[derive(Clone)]
pub struct Job<'a, W> {
    pub(super) range: Range<u64>,
    pub(super) work: W,
    pub(super) align: u64,
    pub(super) min_chunk: u64,
    pub(super) max_helpers: u32,
    pub(super) nodes: NodeMask,
    pub(super) is_for_helpers: bool,
    pub(super) undo: Option<Undo<'a>>,
    pub(super) stop_if: Option<StopIf<'a>>,
}

/// The function of a job, whose error is kept elsewhere: one type for all jobs, so that what runs them is
/// compiled once for each kind of CPU.
pub(super) type AnyWork<'a> = &'a (dyn Fn(&Chunk<'_>) -> Result<(), ()> + Sync);

type Undo<'a> = &'a (dyn Fn(Range<u64>) + Sync);
type StopIf<'a> = &'a (dyn Fn() -> bool + Sync);

impl<'a, W> Job<'a, W> {
    /// The same job with another function.
    pub(super) fn with_work<V>(&self, work: V) -> Job<'a, V> {
        let Self { ref range, work: _, align, min_chunk, max_helpers, nodes, is_for_helpers, undo, stop_if } =
            *self;
        Job {
            range: range.clone(),
            work,
            align,
            min_chunk,
            max_helpers,
            nodes,
            is_for_helpers,
            undo,
            stop_if,
        }
    }

    /// A job over `range` that may be cut anywhere, with as many helpers as there are, on any node.
    pub fn new(range: Range<u64>, work: W) -> Self {
        Self {
            range,
            work,
            align: 1,
            min_chunk: 1,
            max_helpers: u32::MAX,
            nodes: NodeMask::ALL,
            is_for_helpers: false,
            undo: None,
            stop_if: None,
        }
    }

    /// Cuts only at multiples of `align`; 0 counts as 1.
    pub fn align(self, align: u64) -> Self {
        Self { align: align.max(1), ..self }
    }

    /// Sets the minimum chunk: as much work as is worth waking a helper. 0 counts as 1.
    pub fn min_chunk(self, min_chunk: u64) -> Self {
        Self { min_chunk: min_chunk.max(1), ..self }
    }

    /// Limits the number of helpers. The caller works too, and is not counted.
    pub fn max_helpers(self, max_helpers: u32) -> Self {
        Self { max_helpers, ..self }
    }

    /// Limits the helpers to those of these nodes.
    pub fn on_nodes(self, nodes: NodeMask) -> Self {
        Self { nodes, ..self }
    }

    /// Leaves the chunks to helpers, where `is_for_helpers`: the caller takes none as long as helpers take
    /// them, and begins after a hundred times the pool's [`PollLimit`](super::PollLimit) without one taken.
    /// For work that CPUs of other nodes do better than the caller's.
    pub(crate) fn for_helpers(self, is_for_helpers: bool) -> Self {
        Self { is_for_helpers, ..self }
    }

    /// Sets the function that undoes the work of a job that fails, is cancelled or panics. The caller calls
    /// it once all helpers have left, with disjoint ranges that are exactly what was done.
    pub fn undo(self, undo: Undo<'a>) -> Self {
        Self { undo: Some(undo), ..self }
    }

    /// Cancels the job when `stop` returns true. Every worker calls it between chunks.
    pub fn stop_if(self, stop: StopIf<'a>) -> Self {
        Self { stop_if: Some(stop), ..self }
    }
}

/// A piece of a job, for one call of its function.
pub struct Chunk<'a> {
    /// First unit.
    pub start: u64,
    /// Unit behind the last one.
    pub end: u64,
    worker: u32,
    /// Everything before this is done.
    pub(super) done: Cell<u64>,
    stopped: &'a dyn Fn() -> bool,
}

impl<'a> Chunk<'a> {
    pub(super) fn new(range: Range<u64>, worker: u32, stopped: &'a dyn Fn() -> bool) -> Self {
        Self { start: range.start, end: range.end, worker, done: Cell::new(range.start), stopped }
    }

    /// The range to work on.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Number of the worker: 0 is the caller, a helper is 1 + the number of its CPU. No two workers that are
    /// in a job at once have the same number.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// Notes that everything before `at` is done: if the function then fails or panics, this part is undone.
    /// A function that never calls this must have undone its part of the chunk itself when it fails.
    pub fn done_to(&self, at: u64) {
        self.done.set(at.clamp(self.start, self.end));
    }

    /// Whether the job was stopped meanwhile: a long chunk may return early with an error of its own.
    pub fn is_stopped(&self) -> bool {
        (self.stopped)()
    }
}

/// Why a job is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed<E> {
    /// The error of the first chunk that failed.
    Error(E),
    /// A chunk panicked on a helper.
    Panicked,
    /// The job was cancelled by [`Job::stop_if`].
    Cancelled,
}

impl<E: fmt::Display> fmt::Display for Failed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Panicked => f.write_str("a helper panicked"),
            Self::Cancelled => f.write_str("the job was given up"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for Failed<E> {}

/// Cost of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// Number of helpers that joined.
    pub helpers: u32,
    /// Nanoseconds that helpers worked, also the helpers of their own jobs. Added to the caller's context.
    pub helper_ns: u64,
}

impl<W> fmt::Debug for Job<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { range, align, min_chunk, max_helpers, nodes, .. } = self;
        write!(f, "{range:?} by {align}, {min_chunk} or more, {max_helpers} helpers of {nodes:?}")
    }
}

impl fmt::Debug for Chunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} by {}", self.start, self.end, self.worker)
    }
}
