//! `interleaf check fuzz`: random cases until a time is over; what fails is told with how to see it again.

use crate::fuzz::{FuzzConfig, FuzzLimit, FuzzReport, Group, Parser, Runner};
use interleaf_lab::error::Failure;
use interleaf_lab::measure::bench::Options;
use interleaf_lab::os::lacking;
use interleaf_lab::show::{Output, Progress};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The arguments of `interleaf check fuzz`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How long; 60, if nothing is said
    #[arg(long, value_name = "S", conflicts_with = "executions")]
    seconds: Option<f64>,
    /// How many executions, instead of a time
    #[arg(long, value_name = "N")]
    executions: Option<u64>,
    /// All cases follow from it; drawn from the clock and printed, if nothing is said
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only this
    #[arg(long, value_enum, value_name = "GROUP")]
    only: Vec<Group>,
    /// Play one case again
    #[arg(long, value_name = "N", requires = "only", conflicts_with_all = ["seconds", "executions", "seed"])]
    case: Option<u64>,
    /// On how many threads; as many as there are CPUs, if nothing is said
    #[arg(long, visible_alias = "cpus", value_name = "N")]
    jobs: Option<u32>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Lines of this command as input of its own parser.
const LINES: Parser = Parser { name: "lines of this command", weight: 1, samples: lines, read: read_line };

/// Thousandths of a run that the progress shows.
const STEPS: usize = 1000;

/// Plays, and fails with the first case that does.
pub fn run(args: &Args) -> Result<(), Failure> {
    let config = args.config()?;
    let output = args.output;
    if !output.json {
        eprintln!("seed {}", config.seed);
    }
    let runner = Runner::new(config);
    let done = match (args.case, &args.only[..]) {
        (Some(case), &[group]) => runner.replay(group, case),
        (Some(_), _) => return Err(Failure::usage("--case is a case of one group: --only GROUP")),
        (None, _) => {
            let progress = Progress::new(output, STEPS);
            let done = runner.run(&progress);
            progress.done();
            done
        }
    };
    let report = done.map_err(|failure| Failure::check(failure.to_string()))?;
    report.left_out.iter().for_each(|what| lacking::note("check fuzz", what));
    if report.executions == 0 {
        return Err(Failure::usage(format!("nothing was played: {}", report.left_out.join("; "))));
    }
    output.emit(&report, FuzzReport::text)
}

impl Args {
    fn config(&self) -> Result<FuzzConfig, Failure> {
        let lent = Options::full().cpus.len().max(1) as u32;
        let jobs = self.jobs.unwrap_or(lent);
        if !(1..=lent).contains(&jobs) {
            return Err(Failure::usage(format!("--jobs {jobs}: this machine lends 1 to {lent}")));
        }
        let groups = if self.only.is_empty() { Group::ALL.to_vec() } else { self.only.clone() };
        let seed = self.seed.unwrap_or_else(fresh_seed);
        Ok(FuzzConfig { seed, limit: self.limit()?, groups, jobs, parsers: vec![LINES] })
    }

    fn limit(&self) -> Result<FuzzLimit, Failure> {
        match self.executions {
            Some(0) => return Err(Failure::usage("--executions 0 plays nothing: at least 1")),
            Some(executions) => return Ok(FuzzLimit::Executions(executions)),
            None => {}
        }
        let seconds = self.seconds.unwrap_or(60.0);
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() && seconds <= 7.0 * 86_400.0 => Ok(FuzzLimit::Time(time)),
            _ => Err(Failure::usage(format!("--seconds {seconds}: more than none, at most a week"))),
        }
    }
}

/// A seed that no run had before.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ u64::from(std::process::id()) << 32
}

fn lines() -> Vec<Vec<u8>> {
    let lines = [
        "interleaf bench machine.fence --small --pairs 3 --json",
        "interleaf boot --cpus 2 --memory 64M --path locked --timeout 5 -- storm 3",
        "interleaf check pairs --seeds 10 --first 18446744073709551615",
        "interleaf check stress --tasks 3 --seconds 1e3 --rounds 0",
        "interleaf check fuzz --only parse --case 7",
        "interleaf fault pft --cpus 1,2 --seconds 0.5 --mib 64",
        "interleaf init --memory 64G --nodes 2 --threads 1,2 --holes 7",
        "interleaf record -o x.trace -- true",
        "interleaf --small --seed 7",
    ];
    lines.iter().map(|line| line.as_bytes().to_vec()).collect()
}

fn read_line(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    let _ = interleaf_lab::cli::understands(&line) | super::understands(&line);
}
