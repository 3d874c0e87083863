//! One measured number, what it is held against, and the verdict.
//!
//! A figure is timed or counted. A timed one carries the interval of its median and what the same code gave
//! when it was compared with itself in the same run (`aa`): a bar that lies nearer than that run could
//! resolve gets no verdict from it. A counted one (instructions, shared lines written, bytes) is exact and
//! has neither.

use crate::median::Median;
use crate::show::table::number;
use serde::Serialize;
use std::fmt;

/// Whether a bar is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// It is.
    #[serde(rename = "yes")]
    Yes,
    /// The interval straddles the bar, or the run resolves less than the distance to it. Never of a count.
    #[serde(rename = "cannot tell")]
    CannotTell,
    /// It is not.
    #[serde(rename = "no")]
    No,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Yes => "yes",
            Verdict::CannotTell => "cannot tell",
            Verdict::No => "NO",
        })
    }
}

/// What a figure must meet. It is held against `ratio` where there is a yardstick, else against `value`; see
/// `low`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Exactly this: for counts.
    Exactly(f64),
}

impl Bar {
    /// Judges a median with its interval, of a run whose A/A interval reaches `spread` from 1.
    pub fn judge(self, of: Median, spread: f64) -> Verdict {
        let (met, missed, bar) = match self {
            Bar::AtMost(bar) => (of.high <= bar, of.low > bar, bar),
            Bar::AtLeast(bar) => (of.low >= bar, of.high < bar, bar),
            Bar::Exactly(bar) => (of.low == bar && of.high == bar, of.low != bar || of.high != bar, bar),
        };
        match (met, missed) {
            _ if spread > 0.0 && spread >= distance(of.middle, bar) => Verdict::CannotTell,
            (true, _) => Verdict::Yes,
            (_, true) => Verdict::No,
            _ => Verdict::CannotTell,
        }
    }
}

/// By what factor, less 1, two numbers differ: 1 and 2, as 2 and 1, by 1.
fn distance(a: f64, b: f64) -> f64 {
    if a > 0.0 && b > 0.0 { (a / b).max(b / a) - 1.0 } else { (a - b).abs() }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::AtMost(bar) => write!(f, "<= {}", number(*bar)),
            Bar::AtLeast(bar) => write!(f, ">= {}", number(*bar)),
            Bar::Exactly(bar) => write!(f, "= {}", number(*bar)),
        }
    }
}

/// A line of points, where one number is not the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// What runs along the x axis.
    pub x: &'static str,
    /// The points, by rising x; y is in the figure's unit.
    pub points: Vec<(f64, f64)>,
}

/// One answer of a benchmark. The field names are the JSON's and stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// `area.figure`.
    pub name: &'static str,
    /// The median of our side.
    pub value: f64,
    /// The unit of `value`.
    pub unit: &'static str,
    /// What our side is held against.
    pub yardstick: Option<&'static str>,
    /// The median of the yardstick's side, in the same unit.
    pub yardstick_value: Option<f64>,
    /// The median of ours divided by the yardstick's, pair by pair.
    pub ratio: Option<f64>,
    /// The lower end of the 95 % interval of `ratio`; of `value` where there is no yardstick, or it only
    /// stands beside.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Our side divided by itself in the same run; absent for a count.
    pub aa: Option<f64>,
    /// How far the 95 % interval of `aa` reaches from 1.
    pub aa_spread: Option<f64>,
    /// How many pairs, or samples, were taken; 1 for a count.
    pub samples: usize,
    /// What must be met.
    pub bar: Option<Bar>,
    /// Whether it is; absent without a bar, and for a timed figure at small size.
    pub verdict: Option<Verdict>,
    /// How to take this figure alone.
    pub command: String,
    /// More than one number, where the question asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// What `value` is the sum of, by name, where the question asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(String, f64)>,
    /// Whether the run was long enough to hold the figure against its bar.
    #[serde(skip)]
    judged: bool,
}

impl Figure {
    /// Whether more pairs may say something else: where nothing can be told yet, and where a bar is missed by
    /// times, since the host may have taken a CPU away for a while. A count says the same each time.
    pub fn is_measured_again(&self) -> bool {
        self.samples > 1 && matches!(self.verdict, Some(Verdict::CannotTell | Verdict::No))
    }

    /// An exact count.
    pub fn count(name: &'static str, value: f64, unit: &'static str) -> Figure {
        Figure {
            name,
            value,
            unit,
            yardstick: None,
            yardstick_value: None,
            ratio: None,
            low: value,
            high: value,
            aa: None,
            aa_spread: None,
            samples: 1,
            bar: None,
            verdict: None,
            command: format!("interleaf bench {name}"),
            curve: None,
            parts: Vec::new(),
            judged: true,
        }
    }

    /// A count held against another count.
    pub fn count_against(
        name: &'static str,
        value: f64,
        unit: &'static str,
        yardstick: &'static str,
        yardstick_value: f64,
    ) -> Figure {
        let ratio = value / yardstick_value;
        Figure {
            yardstick: Some(yardstick),
            yardstick_value: Some(yardstick_value),
            ratio: Some(ratio),
            low: ratio,
            high: ratio,
            ..Figure::count(name, value, unit)
        }
    }

    /// A count that is judged by its own value; another's stands beside it for the reader.
    pub fn count_beside(
        name: &'static str,
        value: f64,
        unit: &'static str,
        yardstick: &'static str,
        yardstick_value: f64,
    ) -> Figure {
        let count = Figure::count_against(name, value, unit, yardstick, yardstick_value);
        Figure { low: value, high: value, ..count }
    }

    /// A timed figure without a yardstick: the median of `values`, and `aa` from the same code's own pairs.
    pub(super) fn timed(name: &'static str, unit: &'static str, values: &[f64], aa: Median) -> Figure {
        let value = Median::of(values);
        Figure {
            low: value.low,
            high: value.high,
            aa: Some(aa.middle),
            aa_spread: Some(aa.spread_around_one()),
            samples: values.len(),
            ..Figure::count(name, value.middle, unit)
        }
    }

    /// Holds a timed figure against a yardstick, by the interval of the ratios.
    pub(super) fn against(self, yardstick: &'static str, value: f64, ratio: Median) -> Figure {
        Figure {
            yardstick: Some(yardstick),
            yardstick_value: Some(value),
            ratio: Some(ratio.middle),
            low: ratio.low,
            high: ratio.high,
            ..self
        }
    }

    /// Says that the run was too short to be judged.
    pub(super) fn unjudged(self) -> Figure {
        Figure { judged: false, ..self }
    }

    /// Sets the bar and judges it.
    pub fn with_bar(mut self, bar: Bar) -> Figure {
        self.bar = Some(bar);
        self.verdict = self.judge(bar);
        self
    }

    /// The verdict on a bar that is not the figure's own: of a claim. `None` where the run was too short.
    pub fn judge(&self, bar: Bar) -> Option<Verdict> {
        let middle = self.ratio.filter(|_| self.is_held_by_ratio()).unwrap_or(self.value);
        let median = Median { middle, low: self.low, high: self.high };
        self.judged.then(|| bar.judge(median, self.aa_spread.unwrap_or(0.0)))
    }

    /// Whether `low` and `high` are those of the ratio.
    fn is_held_by_ratio(&self) -> bool {
        self.ratio.is_some_and(|ratio| self.low <= ratio && ratio <= self.high)
    }

    /// Adds a curve.
    pub fn with_curve(mut self, x: &'static str, points: Vec<(f64, f64)>) -> Figure {
        self.curve = Some(Curve { x, points });
        self
    }

    /// Says what the value is the sum of.
    pub fn with_parts(self, parts: Vec<(String, f64)>) -> Figure {
        Figure { parts, ..self }
    }
}

#[cfg(test)]
#[path = "tests/figure.rs"]
mod tests;
