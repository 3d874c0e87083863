//! `interleaf bench [AREA[.FIGURE]]`: measures, and with `--check` fails where a bar is missed.

use crate::error::Failure;
use crate::measure::bench::report::Report;
use crate::measure::bench::{BENCHMARKS, Figure, Options};
use crate::os::checkout::{FIGURES, PROFILE};
use crate::show::chart::{self, Series};
use crate::show::{Output, Progress};
use std::fs;
use std::path::{Path, PathBuf};

/// The arguments of `interleaf bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to measure: an area (`machine`) or a figure (`machine.fence`); everything, if nothing is said;
    /// `list` names them all
    #[arg(value_name = "AREA[.FIGURE]")]
    pub filter: Option<String>,
    /// Fail if a bar is missed, or if more than a tenth of the bars of a whole run cannot be told
    #[arg(long)]
    pub check: bool,
    /// Small sizes and few pairs: shows that everything works, judges counts but no times
    #[arg(long)]
    pub small: bool,
    /// How many pairs to take for a ratio, at least 31 where times are judged
    #[arg(long)]
    pub pairs: Option<usize>,
    /// The seed of everything that is drawn by chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Also write every curve as an SVG file into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub svg: Option<PathBuf>,
    /// Text or JSON.
    #[command(flatten)]
    pub output: Output,
}

impl Args {
    /// Whether the filter names a benchmark, or there is none.
    pub(super) fn names_something(&self) -> bool {
        let named = |f: &str| f == "list" || BENCHMARKS.iter().any(|b| b.is_named_by(f));
        self.filter.as_deref().is_none_or(named)
    }
}

/// Measures what is asked for.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.filter.as_deref() == Some("list") {
        return super::list::benchmarks(args.output);
    }
    may_judge(&args, PROFILE)?;
    let options = options(&args)?;
    let progress = Progress::new(args.output, BENCHMARKS.len());
    let report = Report::run(&options, args.filter.as_deref(), |benchmark| progress.step(benchmark.name))?;
    progress.done();
    if let Some(directory) = &args.svg {
        write_curves(directory, report.context.iter().chain(&report.figures))?;
    }
    args.output.emit(&report, Report::text)?;
    if args.check { report.check() } else { Ok(()) }
}

/// Times are judged in one profile alone.
fn may_judge(args: &Args, profile: &str) -> Result<(), Failure> {
    if args.check && !args.small && profile != FIGURES {
        return Err(Failure::usage(format!(
            "--check judges no times of profile {profile}: cargo run --profile {FIGURES} -- bench --check"
        )));
    }
    Ok(())
}

fn options(args: &Args) -> Result<Options, Failure> {
    let size = if args.small { Options::small() } else { Options::full() };
    let pairs = args.pairs.unwrap_or(size.pairs);
    if !args.small && pairs < size.pairs {
        return Err(Failure::usage(format!(
            "--pairs {pairs}: a figure is judged on at least {}",
            size.pairs
        )));
    }
    if pairs == 0 {
        return Err(Failure::usage("--pairs 0: a figure needs a pair"));
    }
    Ok(Options { pairs, seed: args.seed, ..size })
}

/// Writes `FIGURE.svg` for every figure that has a curve.
fn write_curves<'a>(directory: &Path, figures: impl Iterator<Item = &'a Figure>) -> Result<(), Failure> {
    let refuse = |path: &Path, error| Failure::usage(format!("{}: {error}", path.display()));
    fs::create_dir_all(directory).map_err(|e| refuse(directory, e))?;
    for (figure, curve) in figures.filter_map(|f| f.curve.as_ref().map(|c| (f, c))) {
        let path = directory.join(format!("{}.svg", figure.name));
        let svg = chart::svg(figure.name, curve.x, figure.unit, &Series::only(&curve.points));
        fs::write(&path, svg).map_err(|e| refuse(&path, e))?;
    }
    Ok(())
}
