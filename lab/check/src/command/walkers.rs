//! `interleaf check walkers`: every walker beside every pair of writers, in each format of tables.

use super::seeds_from;
use crate::walkers::{Memory, Summary, Walker, Writer, all, run_walker};
use interleaf::table::format::{Aarch64, Sv48, X86_64};
use interleaf_lab::error::Failure;
use interleaf_lab::os::on_all_cpus;
use interleaf_lab::show::{Output, Progress, table};
use serde::Serialize;
use std::time::Instant;

/// The arguments of `interleaf check walkers`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Seeds to play for each walker and writer; a seed decides the other writer, and where the walker stops
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only what has this walker, writer or kind of memory in it
    #[arg(long, value_name = "NAME")]
    with: Option<String>,
    /// Formats of the tables; all, if nothing is said
    #[arg(long, value_enum, value_delimiter = ',')]
    format: Vec<Tables>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
enum Tables {
    /// Four levels, as x86-64 has them
    #[serde(rename = "x86-64")]
    X86_64,
    /// AArch64 with pages of 4 KiB, where a present entry changes through an absent one
    #[serde(rename = "aarch64")]
    Aarch64,
    /// RISC-V with four levels
    #[serde(rename = "riscv")]
    Riscv,
}

/// What was played. The field names of this and of the rows are the JSON's and stay.
#[derive(Debug, Serialize)]
struct Played {
    rows: Vec<Row>,
    seeds: u64,
    seconds: f64,
}

/// A walker in one kind of memory, beside all of its writers.
#[derive(Clone, Debug, Serialize)]
struct Row {
    format: Tables,
    walker: String,
    memory: String,
    writers: u64,
    runs: u64,
    /// Runs in which the walker had stopped for ever when the writers came to their ends.
    stopped: u64,
    steps: u64,
}

type Scene = (Tables, (Walker, Memory, Writer));

/// Plays all, on as many threads as there are CPUs, up to the first that fails.
pub fn run(args: &Args) -> Result<(), Failure> {
    let seeds = seeds_from(args.first, args.seeds)?;
    let start = Instant::now();
    let chosen = args.chosen()?;
    let progress = Progress::new(args.output, chosen.len());
    let play = |(format, scene): Scene| -> Result<(Scene, Summary), Failure> {
        let (walker, memory, writer) = scene;
        progress.step(&format!("{walker:?} of {memory:?} memory beside {writer:?}, {format:?}"));
        let played = match format {
            Tables::X86_64 => run_walker::<X86_64>(scene, seeds.clone()),
            Tables::Aarch64 => run_walker::<Aarch64>(scene, seeds.clone()),
            Tables::Riscv => run_walker::<Sv48>(scene, seeds.clone()),
        };
        let wrong = |trouble| Failure::check(format!("{format:?}: {trouble}"));
        Ok(((format, scene), played.map_err(wrong)?))
    };
    let played = on_all_cpus(chosen, play)?;
    progress.done();
    let rows = rows(&played);
    let played = Played { rows, seeds: args.seeds, seconds: start.elapsed().as_secs_f64() };
    args.output.emit(&played, text)
}

/// One row for each format, walker and memory: what was played of it comes in a row.
fn rows(played: &[(Scene, Summary)]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for &((format, (walker, memory, _)), summary) in played {
        let (walker, memory) = (format!("{walker:?}"), format!("{memory:?}"));
        let is_same = |row: &Row| (row.format, &row.walker, &row.memory) == (format, &walker, &memory);
        if !rows.last().is_some_and(is_same) {
            let none = Row {
                format,
                walker: walker.clone(),
                memory: memory.clone(),
                writers: 0,
                runs: 0,
                stopped: 0,
                steps: 0,
            };
            rows.push(none);
        }
        let Some(row) = rows.last_mut() else { continue };
        row.writers += 1;
        row.runs += summary.seeds;
        row.stopped += summary.stopped;
        row.steps += summary.steps;
    }
    rows
}

fn text(played: &Played) -> String {
    let cells = |row: &Row| {
        let Row { format, walker, memory, writers, runs, stopped, steps } = row;
        let numbers = [writers, runs, stopped, steps].map(|n| table::number(*n as f64));
        [format!("{format:?}"), walker.clone(), memory.clone()].into_iter().chain(numbers).collect()
    };
    let header = ["format", "walker", "memory", "writers", "runs", "stopped for ever", "steps"];
    format!(
        "{}\n{} seeds each, {:.0} s: the walkers found what they may find, no writer waited for one, and \
         everything adds up\n",
        table::of(&header, played.rows.iter().map(cells)),
        played.seeds,
        played.seconds
    )
}

impl Args {
    /// What to play, in the order of the rows.
    fn chosen(&self) -> Result<Vec<Scene>, Failure> {
        let every = [Tables::X86_64, Tables::Aarch64, Tables::Riscv];
        let formats = every.into_iter().filter(|it| self.format.is_empty() || self.format.contains(it));
        let names = |(walker, memory, writer): (Walker, Memory, Writer)| {
            [format!("{walker:?}"), format!("{memory:?}"), format!("{writer:?}")]
        };
        let is_wanted = |scene: &(Walker, Memory, Writer)| {
            let name = self.with.as_ref();
            name.is_none_or(|name| names(*scene).iter().any(|it| it.eq_ignore_ascii_case(name)))
        };
        let scenes: Vec<_> = all().filter(is_wanted).collect();
        if scenes.is_empty() {
            let mut known: Vec<_> = all().flat_map(names).collect();
            known.sort_unstable();
            known.dedup();
            let name = self.with.as_deref().unwrap_or_default();
            return Err(Failure::usage(format!("--with {name}: one of {}", known.join(", "))));
        }
        Ok(formats.flat_map(|format| scenes.iter().map(move |&scene| (format, scene))).collect())
    }
}
