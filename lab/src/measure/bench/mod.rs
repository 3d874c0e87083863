//! Measuring: one question per file, every answer a [`Figure`].
//!
//! A benchmark answers a question with ratios to a yardstick that ran in the same moments (`paired`), or with
//! exact counts. What the machine itself costs (zeroing a frame, a fence, a lock) is measured in every run
//! and printed as context: a figure is read beside it.
//!
//! Three rules keep figures honest. Memory is dirty and prefaulted before the clock starts ([`Arena`]),
//! except where the first touch is the question. Threads are pinned, and never more of them run than the host
//! has CPUs ([`pinned_threads`]). Every benchmark runs at small size as a test, where times are taken but not
//! judged, so that none can rot.
//!
//! To add one: a file with one `pub const BENCHMARK: Benchmark`, and its name in [`BENCHMARKS`].

mod arena;
mod benchmark;
mod figure;
mod paired;
pub mod pinned_threads;
pub mod report;
pub mod yardstick;

mod collapse;
mod collapse_beside;
mod counted;
mod fair;
mod fault;
mod file;
mod fork;
mod fork_beside;
mod frames;
mod helped;
mod index;
mod init;
mod job;
mod locks;
mod memset;
mod metadata;
mod ordering;
mod paths;
mod pin;
mod replay;
mod replay_linear;
mod rmap;
pub mod sim;
mod sizes;
mod space;
mod spaces;
mod sync;
mod systems;
mod teardown;
mod teardown_beside;
mod thp;
mod thp_helped;
mod touched;
mod walk;
mod zero;
mod zone;

pub use super::options::Options;
pub use arena::{Arena, Frame};
pub use benchmark::Benchmark;
pub use figure::{Bar, Curve, Figure, Verdict};
pub use paired::{alone, ns_per, ns_per_rested, paired};

/// Every benchmark, in the order in which they run.
pub const BENCHMARKS: &[Benchmark] = &[
    memset::BENCHMARK,
    ordering::BENCHMARK,
    locks::BENCHMARK,
    yardstick::BENCHMARK,
    sync::BENCHMARK,
    fair::LOCK,
    fair::WAITS,
    frames::BENCHMARK,
    zone::BENCHMARK,
    fault::BENCHMARK,
    file::BENCHMARK,
    fork::BENCHMARK,
    fork_beside::BENCHMARK,
    rmap::BENCHMARK,
    pin::BENCHMARK,
    walk::BENCHMARK,
    teardown::BENCHMARK,
    teardown_beside::BENCHMARK,
    thp::BENCHMARK,
    thp_helped::BENCHMARK,
    collapse::BENCHMARK,
    collapse_beside::BENCHMARK,
    sizes::BENCHMARK,
    space::BENCHMARK,
    spaces::SCALING,
    systems::BENCHMARK,
    spaces::SHARED,
    spaces::WAITING,
    fair::MUNMAP,
    paths::BENCHMARK,
    sim::BENCHMARK,
    index::BENCHMARK,
    metadata::BENCHMARK,
    init::BENCHMARK,
    replay::BENCHMARK,
    replay_linear::BENCHMARK,
    job::BENCHMARK,
    helped::BENCHMARK,
    zero::BENCHMARK,
];

/// The area whose figures are taken in every run, as context.
pub const CONTEXT: &str = "machine";
