//! Does a replay take as long for each event of a long program as for each of a short one?
//!
//! The programs are made up ([`made`]): one maps, touches and unmaps, the other does so beside mappings that
//! stay, 65 000 of them at a million events. All that looks at every event is timed: decoding, `trace info`
//! and `trace dump`, cutting, the memory that is needed, the play with all that is compared, the report. Not
//! timed is the machine, whose memory is asked for and written to before. What is left to differ is what the
//! caches hold of a hundred times as much, and the depth of trees.

use super::{Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::garbage;
use crate::replay::made::{self, Made};
use crate::replay::{CheckedReplay, Replay};
use crate::trace::info::Info;
use crate::trace::{TraceReader, dump};
use interleaf::space::Path;
use std::hint::black_box;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "replay.linear",
    question: "Does a replay take as long for each event of a long program as for each of a short one?",
    figures: &["replay.linear_loops", "replay.linear_living"],
    run,
};

/// Pairs at most: a side takes seconds.
const PAIRS_MOST: usize = 5;
/// Events of the short program.
const SHORT: usize = 10_000;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let _pinned = options.pin();
    let options = Options { pairs: options.pairs.min(PAIRS_MOST), ..options.clone() };
    let (short, long) = options.size((SHORT, 100 * SHORT), (SHORT / 10, SHORT));
    let figure = |name, make: fn(usize) -> Made| {
        let (long, short) = (Passes::over(&make(long))?, Passes::over(&make(short))?);
        let figure = long.with(|long| {
            short.with(|short| paired(&options, name, "ns/event", long, "a hundredth of the events", short))
        });
        let figure = figure.and_then(|figure| figure).map_err(Failure::usage)?;
        Ok::<_, Failure>(figure.with_bar(Bar::AtMost(1.5)))
    };
    let mut figures = Vec::new();
    if options.wants("replay.linear_loops") {
        figures.push(figure("replay.linear_loops", made::loops)?);
    }
    if options.wants("replay.linear_living") {
        figures.push(figure("replay.linear_living", made::beside_living)?);
    }
    Ok(figures)
}

/// A trace, and every pass over it.
struct Passes {
    trace: Vec<u8>,
    replay: Replay,
    events: f64,
}

impl Passes {
    fn over(made: &Made) -> Result<Passes, Failure> {
        let trace = made.written()?;
        let replay = Replay::read_bytes(&trace).map_err(Failure::usage)?;
        Ok(Passes { trace, replay, events: made.events.len() as f64 })
    }

    /// Runs `f` with all passes as a closure, which returns what they took for each event, nanoseconds.
    fn with<R>(&self, f: impl FnOnce(&mut dyn FnMut() -> f64) -> R) -> Result<R, String> {
        CheckedReplay::with(&self.replay, |ready| {
            let result = f(&mut || {
                let start = Instant::now();
                self.read();
                black_box(ready.check(Path::Speculative, |_| ()).expect("it was played before").text());
                start.elapsed().as_nanos() as f64 / self.events
            });
            ready.on_cpu(garbage::note);
            result
        })
    }

    /// What looks at the events without playing them.
    fn read(&self) {
        let reader = || TraceReader::new(&self.trace[..]).expect("it was read before");
        black_box(Info::of(reader(), |_| ()).expect("it was read before").text());
        reader().flatten().for_each(|event| drop(black_box(dump::line(&event))));
        black_box(Replay::read_bytes(&self.trace).expect("it was read before").progress_steps());
    }
}
