//! What does a recorded program cost on our address space, against zeroing the frames that it needs?
//!
//! The fault-heavy trace is Python's: more than nine in ten of its events are faults. The call-heavy one is
//! the allocator's, in which a call comes after every four faults. Zeroing with a fence after each frame asks
//! how much of the ratio is that a fault, which installs its frame under a lock, cannot overlap its zeroing
//! with the next. A library that cost nothing would read 1.4 where zeroing is fast: the software machine and
//! the replay's loop take the rest. The bar leaves the library once the zeroing (docs/decisions/0064). Each
//! replay goes from exec to the end of the space: mapping, faulting, touching, unmapping,
//! and the program's own choice of places.

use super::{Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::garbage;
use crate::replay::{Replay, TimedReplay, shipped};
use interleaf::space::Path;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "replay",
    question: "What does a recorded program cost here, against zeroing the frames that it needs?",
    figures: &[
        "replay.fault_heavy",
        "replay.fault_heavy_locked",
        "replay.call_heavy",
        "replay.zeroing_fenced",
    ],
    run,
};

const ZEROING: &str = "zeroing its frames, same order";

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let _pinned = options.pin();
    // At small size each replay is that of the smallest trace.
    let faults = options.size(shipped::PYTHON, shipped::SQLITE);
    let calls = options.size(shipped::CHURN, shipped::SQLITE);
    Ok(vec![
        against_zeroing(options, "replay.fault_heavy", faults, Path::Speculative)?.with_bar(Bar::AtMost(2.4)),
        against_zeroing(options, "replay.fault_heavy_locked", faults, Path::Locked)?,
        against_zeroing(options, "replay.call_heavy", calls, Path::Speculative)?,
        fenced(options, faults)?,
    ])
}

/// A whole replay against its zeroing, per frame.
fn against_zeroing(
    options: &Options,
    name: &'static str,
    trace: &[u8],
    path: Path,
) -> Result<Figure, Failure> {
    let replay = Replay::read_bytes(trace).map_err(Failure::usage)?;
    let figure = TimedReplay::with(&replay, path, |ready| {
        let frames = ready.frames_filled() as f64;
        let ours = || ready.play() / frames;
        let figure = paired(options, name, "ns/frame", ours, ZEROING, || ready.zero() / frames);
        garbage::note(ready.vm());
        figure
    });
    figure.map_err(Failure::usage)
}

/// The zeroing, with a fence after each frame, against the same without.
fn fenced(options: &Options, trace: &[u8]) -> Result<Figure, Failure> {
    let replay = Replay::read_bytes(trace).map_err(Failure::usage)?;
    let figure = TimedReplay::with(&replay, Path::Speculative, |ready| {
        let frames = ready.frames_filled() as f64;
        // A replay before each finds the caches as the other figures have them.
        let after_play = |zero: fn(&TimedReplay<'_>) -> f64| {
            ready.play();
            zero(ready) / frames
        };
        let (ours, theirs) = (|| after_play(|r| r.zero_fenced()), || after_play(|r| r.zero()));
        paired(options, "replay.zeroing_fenced", "ns/frame", ours, ZEROING, theirs)
    });
    figure.map_err(Failure::usage)
}
