//! `interleaf calibrate`: measures this host, and writes a profile for `interleaf predict`.

use crate::error::Failure;
use crate::measure::{Options, calibrate};
use crate::show::{Output, OutputFile};
use serde::Serialize;
use std::path::PathBuf;

/// The arguments of `interleaf calibrate`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Also write the profile to this file, for `interleaf predict --profile FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Few rounds, and no gap: shows that everything works
    #[arg(long)]
    small: bool,
    /// Text, which is the profile itself, or JSON.
    #[command(flatten)]
    output: Output,
}

/// What was measured. The field names are the JSON's and stay.
#[derive(Debug, Serialize)]
struct Calibration {
    about: String,
    numbers: Vec<Number>,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
struct Number {
    name: &'static str,
    value: String,
    unit: &'static str,
    source: String,
}

/// Measures, writes, and prints.
pub fn run(args: Args) -> Result<(), Failure> {
    let file = args.out.as_deref().map(|path| OutputFile::open("--out", path)).transpose()?;
    let options = if args.small { Options::small() } else { Options::full() };
    let profile = calibrate::calibrate(&options)?;
    let text = profile.to_string();
    if let Some(file) = file {
        file.write(&text)?;
    }
    let number =
        |(name, value, unit, source): (_, _, _, &str)| Number { name, value, unit, source: source.into() };
    let numbers = profile.entries().map(number).collect();
    let calibration = Calibration { about: profile.about.clone(), numbers, text };
    args.output.emit(&calibration, |calibration| calibration.text.clone())
}
