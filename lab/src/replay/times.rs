//! Linux's recorded times beside ours, per call and per fault.
//!
//! Linux's include what recording added to each: a record when it was entered, another when it returned. Ours
//! are of one replay on one CPU, the clock read before and after each step.

use super::contention::{Contended, LinuxTimes};
use super::life::Life;
use super::step::{Step, Steps};
use crate::show::table::{self, grouped, number};
use crate::trace::Sys;
use serde::Serialize;
use std::collections::BTreeMap;

/// Times by call, and of faults. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// Calls by name.
    pub calls: Vec<CallTimes>,
    /// Faults.
    pub faults: FaultTimes,
}

/// Times of the calls of one name, nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CallTimes {
    /// The name.
    pub call: Sys,
    /// How many.
    pub times: u64,
    /// Linux's median, recording included.
    pub linux_ns: u64,
    /// The median here.
    pub ours_ns: u64,
}

/// Times of faults, nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FaultTimes {
    /// How many were followed by another event of their thread.
    pub times: u64,
    /// Linux: a tenth of the faults were followed by the next event of their thread sooner than this.
    pub linux_next_tenth_ns: u64,
    /// Linux: half of them were.
    pub linux_next_half_ns: u64,
    /// The same of those that met a mapping call of another thread; 0 if none did.
    pub linux_contended_half_ns: u64,
    /// The median here.
    pub ours_ns: u64,
    /// Faults that met such a call, of all.
    pub contended: Contended,
}

/// Times of steps, collected over the lives.
#[derive(Debug, Default)]
pub(super) struct Collected {
    linux: LinuxTimes,
    ours: BTreeMap<Sys, Vec<u64>>,
    our_faults: Vec<u64>,
}

impl Collected {
    /// Adds a life whose steps took these times.
    pub(super) fn add(&mut self, life: &Life, steps: &Steps, step_ns: &[u64]) {
        let times = LinuxTimes::of(&life.events);
        times.calls.into_iter().for_each(|(sys, more)| self.linux.calls.entry(sys).or_default().extend(more));
        self.linux.after_faults.extend(times.after_faults);
        self.linux.after_contended.extend(times.after_contended);
        self.linux.contended.faults += times.contended.faults;
        self.linux.contended.beside_a_call += times.contended.beside_a_call;
        for (step, &ns) in steps.steps.iter().zip(step_ns) {
            match *step {
                Step::Nothing | Step::Barred { .. } => {}
                Step::Touch { .. } | Step::TouchFile { .. } | Step::TouchBeyond { .. } => {
                    self.our_faults.push(ns)
                }
                Step::Call(at) => self.ours.entry(steps.calls[at as usize].sys).or_default().push(ns),
            }
        }
    }

    /// The medians.
    pub(super) fn times(mut self) -> Times {
        let mut calls = Vec::new();
        for (call, ours) in &mut self.ours {
            let linux = self.linux.calls.entry(*call).or_default();
            calls.push(CallTimes {
                call: *call,
                times: ours.len() as u64,
                linux_ns: at_share(linux, 2),
                ours_ns: at_share(ours, 2),
            });
        }
        let after = &mut self.linux.after_faults;
        let faults = FaultTimes {
            times: after.len() as u64,
            linux_next_tenth_ns: at_share(after, 10),
            linux_next_half_ns: at_share(after, 2),
            linux_contended_half_ns: at_share(&mut self.linux.after_contended, 2),
            ours_ns: at_share(&mut self.our_faults, 2),
            contended: self.linux.contended,
        };
        Times { calls, faults }
    }
}

/// The value that one in `part` is less than; 0 of none.
fn at_share(values: &mut [u64], part: usize) -> u64 {
    values.sort_unstable();
    values.get(values.len() / part).copied().unwrap_or(0)
}

impl Times {
    /// As tables.
    pub(super) fn text(&self) -> String {
        let us = |ns: u64| number(ns as f64 / 1000.0);
        let row = |row: &CallTimes| {
            vec![row.call.to_string(), grouped(row.times as i64), us(row.linux_ns), us(row.ours_ns)]
        };
        let header = ["call", "times", "Linux, us", "here, us"];
        let mut text = format!(
            "\nmedians; Linux's include recording\n{}",
            table::of(&header, self.calls.iter().map(row))
        );
        let FaultTimes { linux_next_tenth_ns, linux_next_half_ns, ours_ns, contended, .. } = self.faults;
        let cells = [
            ("a tenth of Linux's faults to the thread's next event, us", us(linux_next_tenth_ns)),
            ("half of them, us", us(linux_next_half_ns)),
            ("a fault here, us", us(ours_ns)),
        ];
        let mut cells: Vec<_> = cells.map(|(name, value)| vec![name.to_string(), value]).into();
        if contended.beside_a_call > 0 {
            let share = contended.beside_a_call as f64 / contended.faults.max(1) as f64 * 100.0;
            let count = format!("{} ({share:.1} %)", grouped(contended.beside_a_call as i64));
            cells.push(vec!["faults beside a mapping call of another thread".to_string(), count]);
            let half = us(self.faults.linux_contended_half_ns);
            cells.push(vec!["half of those to the thread's next event, us".to_string(), half]);
        }
        text += &format!("\n{}", table::of(&["faults", ""], cells));
        text
    }
}
