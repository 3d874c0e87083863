//! How results reach people and programs: one object of JSON, or text.

#![forbid(unsafe_code)]

pub mod bars;
pub mod chart;
mod output_file;
mod progress;
pub mod table;
pub mod width;

pub use output_file::OutputFile;
pub use progress::Progress;

use crate::error::Failure;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};

/// The switch every subcommand takes.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Output {
    /// Print one JSON object on stdout instead of text
    #[arg(long)]
    pub json: bool,
}

impl Output {
    /// Prints `value` as one JSON object, or what `text` makes of it.
    ///
    /// # Errors
    /// `value` is no object, or stdout cannot be written.
    pub fn emit<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        if !self.json {
            return say(&text(value));
        }
        let json = serde_json::to_string_pretty(value).map_err(|e| Failure::check(e.to_string()))?;
        if !json.starts_with('{') {
            return Err(Failure::check("what is to be printed is no JSON object"));
        }
        print(&json)
    }

    /// Whether progress may be drawn: text is wanted and stderr is a terminal.
    pub fn may_draw_progress(self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }
}

/// Prints one block of text to stdout, ending in one newline, its lines no longer than the terminal is wide.
/// A reader that has gone away (`| head`) is no failure: the process ends quietly.
///
/// # Errors
/// Stdout cannot be written.
pub fn say(text: &str) -> Result<(), Failure> {
    match width::of_stdout() {
        Some(most) => print(&width::wrapped(text, most)),
        None => print(text),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}
