//! A bar on the terminal while something takes more than a second.

use super::Output;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;

/// Counts steps; draws only on a terminal, and only after a second.
pub struct Progress {
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Progress {
    /// Progress over at most `steps` steps.
    pub fn new(output: Output, steps: usize) -> Progress {
        let bar = output.may_draw_progress().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
            let bar = ProgressBar::hidden();
            bar.set_length(steps as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { bar, start: Instant::now() }
    }

    /// Says which step begins.
    pub fn step(&self, name: &str) {
        let Some(bar) = &self.bar else { return };
        if self.start.elapsed().as_secs() >= 1 && bar.is_hidden() {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.set_message(name.to_string());
        bar.inc(1);
    }

    /// Says how far it has come, and in words.
    pub fn reach(&self, step: u64, words: &str) {
        let Some(bar) = &self.bar else { return };
        if self.start.elapsed().as_secs() >= 1 && bar.is_hidden() {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.set_message(words.to_string());
        bar.set_position(step);
    }

    /// Takes the bar off the terminal.
    pub fn done(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
