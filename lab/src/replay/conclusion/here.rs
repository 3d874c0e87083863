//! What the recorded faults and calls take here: locked and speculative, without huge pages and with.

use crate::median::Median;
use crate::replay::Replay;
use crate::replay::huge_report::policy_name;
use crate::replay::timed::Stage;
use interleaf::space::Path;
use interleaf::vma::HugePolicy;
use serde::Serialize;

/// What one way of replaying took. The field names are the JSON's and stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Here {
    /// When private memory got huge pages: `never` or `always`.
    pub huge: &'static str,
    /// Measured: the median of the replays whose faults took the space's lock, microseconds.
    pub locked_us: f64,
    /// Measured: the same where faults did without the lock where they could.
    pub speculative_us: f64,
    /// Replays of each.
    pub replays: usize,
}

/// Replays that take longer than this, nanoseconds, are measured once.
const LONG_NS: f64 = 5e8;
/// How often others are.
const TURNS: usize = 3;

/// Measures the ways of replaying; what was not measured is said by a line of words.
pub(super) fn all(mut replay: Replay) -> (Vec<Here>, Vec<String>) {
    let (mut here, mut lacks) = (Vec::new(), Vec::new());
    for policy in [HugePolicy::Never, HugePolicy::Always] {
        let name = policy_name(policy);
        let set = replay.set_huge_pages(policy);
        match set.and_then(|()| Stage::with(&replay, |stage| one(name, &stage))) {
            Ok(measured) => here.push(measured),
            Err(why) => lacks.push(format!("with huge pages {name} nothing was measured: {why}")),
        }
    }
    (here, lacks)
}

/// Plays on both paths in turns, after one of each that does not count.
fn one(huge: &'static str, stage: &Stage<'_>) -> Result<Here, String> {
    let pair = || Ok::<_, String>([stage.play(Path::Locked)?, stage.play(Path::Speculative)?]);
    let longest = pair()?.into_iter().fold(0.0, f64::max);
    let replays = if longest > LONG_NS { 1 } else { TURNS };
    let pairs = (0..replays).map(|_| pair()).collect::<Result<Vec<_>, _>>()?;
    let median_us = |path: usize| {
        let times: Vec<f64> = pairs.iter().map(|pair| pair[path] / 1000.0).collect();
        Median::of(&times).middle
    };
    Ok(Here { huge, locked_us: median_us(0), speculative_us: median_us(1), replays })
}
