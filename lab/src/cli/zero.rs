//! `interleaf zero`: what memory costs that is only read.

use super::init::bytes_of;
use crate::error::Failure;
use crate::measure::zero::{Plan, ZeroPage};
use crate::os::host_info::HostInfo;
use crate::show::{Output, Progress};

/// The arguments of `interleaf zero`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How much memory is compared, half with half: 4M to 64G, a multiple of 4M; 8G unless said
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// How much memory is read once, a byte of each page: 4M to 64G, a multiple of 4M; 200M unless said
    #[arg(long, value_name = "SIZE")]
    touched: Option<String>,
    /// Less memory where nothing is said: 256M are compared, 32M read
    #[arg(long)]
    small: bool,
    /// What a load of untouched memory finds; one or several, all if nothing is said
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    zero_page: Vec<ZeroPage>,
    /// How often each pattern runs on the host; the fastest counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Least and most memory.
const MEMORY: std::ops::RangeInclusive<u64> = 4 << 20..=64 << 30;
/// Bytes of two huge pages, one for each half.
const HALVES: u64 = 4 << 20;

/// Measures what was asked for.
pub fn run(args: Args) -> Result<(), Failure> {
    let wrong = |name: &str, said: &str| {
        Failure::usage(format!("--{name} {said}: a number of M that 4 divides, from 4M to 64G"))
    };
    let sized = |name: &str, said: &str| {
        let fits = |bytes: &u64| MEMORY.contains(bytes) && bytes.is_multiple_of(HALVES);
        bytes_of(said).filter(fits).ok_or_else(|| wrong(name, said))
    };
    let [compared, read_once] = if args.small { ["256M", "32M"] } else { ["8G", "200M"] };
    let memory = sized("memory", args.memory.as_deref().unwrap_or(compared))?;
    let touched = sized("touched", args.touched.as_deref().unwrap_or(read_once))?;
    if !(1..=1000).contains(&args.rounds) {
        return Err(Failure::usage(format!("--rounds {}: 1 to 1000", args.rounds)));
    }
    let kinds = if args.zero_page.is_empty() { ZeroPage::ALL.to_vec() } else { each_once(&args.zero_page) };
    let plan = Plan { memory, touched, rounds: args.rounds, kinds };
    let progress = Progress::new(args.output, plan.steps());
    let report = plan.run(HostInfo::of_this_machine(), &progress)?;
    progress.done();
    args.output.emit(&report, crate::measure::zero::Report::text)
}

/// The kinds in the order in which they were first named.
fn each_once(named: &[ZeroPage]) -> Vec<ZeroPage> {
    let is_first = |(at, kind): &(usize, &ZeroPage)| !named[..*at].contains(kind);
    named.iter().enumerate().filter(is_first).map(|(_, &kind)| kind).collect()
}
