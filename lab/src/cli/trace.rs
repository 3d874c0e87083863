//! `interleaf trace info|dump FILE`: what is in a trace.

use crate::error::Failure;
use crate::show::Output;
use crate::trace::info::Info;
use crate::trace::{Damage, TraceReader, dump};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The arguments of `interleaf trace`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to say: the sum of the trace, or every event
    #[arg(value_enum)]
    what: What,
    /// The trace
    file: PathBuf,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// What to say of a trace.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// Tables: where it was made, what is in it, the account of faults
    Info,
    /// One line for each event; with --json, JSON lines: an object for each event
    Dump,
}

/// Says what is in a trace.
pub fn run(args: Args) -> Result<(), Failure> {
    let bar = bar(&args);
    let refuse = |damage: Damage| Failure::usage(format!("{}: {damage}", args.file.display()));
    match args.what {
        What::Info => {
            let reader = TraceReader::new(open(&args.file, &bar)?).map_err(refuse)?;
            let info = Info::of(reader, |_| {}).map_err(refuse)?;
            bar.finish_and_clear();
            args.output.emit(&info, Info::text)
        }
        What::Dump => {
            let reader = TraceReader::new(open(&args.file, &bar)?).map_err(refuse)?;
            let out = BufWriter::new(io::stdout().lock());
            dump_to(out, reader, args.output.json).map_err(|failed| match failed {
                Failed::Damage(damage) => refuse(damage),
                Failed::Output(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
                Failed::Output(error) => error.into(),
            })
        }
    }
}

enum Failed {
    Damage(Damage),
    Output(io::Error),
}

fn dump_to<R: io::Read>(mut out: impl Write, reader: TraceReader<R>, json: bool) -> Result<(), Failed> {
    for event in reader {
        let event = event.map_err(Failed::Damage)?;
        let line = if json {
            serde_json::to_string(&event).map_err(|e| Failed::Output(e.into()))?
        } else {
            dump::line(&event)
        };
        writeln!(out, "{line}").map_err(Failed::Output)?;
    }
    out.flush().map_err(Failed::Output)
}

fn open(path: &Path, bar: &ProgressBar) -> Result<impl io::Read + use<>, Failure> {
    let file = File::open(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    Ok(BufReader::new(bar.wrap_read(file)))
}

/// A progress bar over the bytes of the file, drawn only on a terminal and only after a second.
fn bar(args: &Args) -> ProgressBar {
    if !args.output.may_draw_progress() || matches!(args.what, What::Dump) {
        return ProgressBar::hidden();
    }
    let len = fs::metadata(&args.file).map_or(0, |m| m.len());
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {eta}");
    let bar = ProgressBar::new(len).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}
