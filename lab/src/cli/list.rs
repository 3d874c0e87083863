//! `interleaf list`: what there is to run.

use crate::boot::image::PROGRAMS;
use crate::error::Failure;
use crate::measure::bench::BENCHMARKS;
use crate::measure::tour::{SECTIONS, Section};
use crate::show::Output;
use serde::Serialize;

/// The arguments of `interleaf list`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Text or JSON.
    #[command(flatten)]
    pub output: Output,
}

/// One thing that can be run.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// What it is called on the command line.
    pub name: String,
    /// What it does, or asks.
    pub about: String,
}

/// A benchmark and its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// What `interleaf bench` calls it.
    pub name: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// The figures it answers with.
    pub figures: &'static [&'static str],
}

/// Everything that can be run, by kind.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// The subcommands.
    pub commands: Vec<Entry>,
    /// What `interleaf bench` answers.
    pub benchmarks: Vec<Question>,
    /// What `interleaf boot` runs in ring 3 by its name.
    pub programs: Vec<Entry>,
    /// The sections of the tour.
    pub sections: Vec<Entry>,
}

/// Lists everything there is to run.
pub fn run(args: Args) -> Result<(), Failure> {
    let commands = super::every().into_iter().map(|(name, about)| Entry { name, about }).collect();
    let section = |s: &Section| Entry { name: s.command.to_string(), about: s.title.to_string() };
    let sections = SECTIONS.iter().map(section).collect();
    let program = |(name, about): &(&str, &str)| Entry { name: name.to_string(), about: about.to_string() };
    let programs = PROGRAMS.iter().map(program).collect();
    args.output.emit(&Listing { commands, benchmarks: questions(), programs, sections }, text)
}

fn text(listing: &Listing) -> String {
    let lines = |entries: &[Entry]| entries.iter().map(|e| line(&e.name, &e.about)).collect::<String>();
    format!(
        "commands (interleaf NAME)\n{}\n{}\nprograms (interleaf boot -- NAME)\n{}\n\
         experiments (interleaf tour shows each, small)\n{}",
        lines(&listing.commands),
        questions_text(&listing.benchmarks),
        lines(&listing.programs),
        lines(&listing.sections)
    )
}

/// The benchmarks alone. The field name is the JSON's and stays.
#[derive(Clone, Debug, Serialize)]
struct Benchmarks {
    benchmarks: Vec<Question>,
}

/// Lists the benchmarks alone.
pub fn benchmarks(output: Output) -> Result<(), Failure> {
    let benchmarks = Benchmarks { benchmarks: questions() };
    output.emit(&benchmarks, |all| questions_text(&all.benchmarks))
}

fn questions() -> Vec<Question> {
    let question = |b: &crate::measure::bench::Benchmark| Question {
        name: b.name,
        question: b.question,
        figures: b.figures,
    };
    BENCHMARKS.iter().map(question).collect()
}

fn questions_text(questions: &[Question]) -> String {
    let text = |q: &Question| {
        let figures: String = q.figures.iter().map(|f| format!("    {f}\n")).collect();
        line(q.name, q.question) + &figures
    };
    format!("benchmarks (interleaf bench NAME)\n{}", questions.iter().map(text).collect::<String>())
}

fn line(name: &str, about: &str) -> String {
    format!("  {name:<32} {about}\n")
}
