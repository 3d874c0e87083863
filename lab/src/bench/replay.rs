//! What does a recorded program cost on our address space, against zeroing the frames that it needs?
//!
//! The fault-heavy trace is Python's: more than nine in ten of its events are faults. The call-heavy one is the allocator's, in
//! which a call comes after every four faults. What is left of the ratio when each zeroing is followed by a fence, as a fault's
//! is by the table's lock, is the library's. Each replay goes from exec to the end of the space: mapping, faulting, touching,
//! unmapping, and the program's own choice of places.

use super::{Bar, Benchmark, Figure, Options, paired};
use crate::command::Failure;
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
        against_zeroing(options, "replay.fault_heavy", faults, Path::Speculative)?.with_bar(Bar::AtMost(1.5)),
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
        let frames = ready.frames_zeroed() as f64;
        paired(options, name, "ns/frame", || ready.play() / frames, ZEROING, || ready.zero() / frames)
    });
    figure.map_err(Failure::usage)
}

/// The zeroing, with a fence after each frame, against the same without.
fn fenced(options: &Options, trace: &[u8]) -> Result<Figure, Failure> {
    let replay = Replay::read_bytes(trace).map_err(Failure::usage)?;
    let figure = TimedReplay::with(&replay, Path::Speculative, |ready| {
        let frames = ready.frames_zeroed() as f64;
        let (ours, theirs) = (|| ready.zero_fenced() / frames, || ready.zero() / frames);
        paired(options, "replay.zeroing_fenced", "ns/frame", ours, ZEROING, theirs)
    });
    figure.map_err(Failure::usage)
}
