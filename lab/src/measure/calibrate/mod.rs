//! The costs of this host, measured: a profile for `interleaf predict`.
//!
//! | file | what |
//! |---|---|
//! | `instructions` | read-modify-write, fence, pause |
//! | `lines` | a line from one CPU to another; lines from memory and the last-level cache |
//! | `zeroing` | pages by working set, on one CPU and on two at a time |
//! | `sleeping` | futex(2) and membarrier(2) |
//! | `gap` | what is left of a fault: the time between two accesses, and stores that drain meanwhile |
//!
//! What a machine with one node and no access to its interrupts cannot tell is taken from the default
//! profile, and called a guess.

mod gap;
mod instructions;
mod lines;
mod samples;
mod sleeping;
mod zeroing;

use super::Options;
use crate::error::Failure;
use crate::machine::sim::{Costs, Profile, Ps};
use crate::os::host_info::HostInfo;
pub use lines::apart_ns;
use samples::Samples;
use std::collections::BTreeMap;

/// A number that was measured: nanoseconds, or a count, and how.
struct Measured {
    value: f64,
    how: String,
}

impl Measured {
    fn new(value: f64, how: impl Into<String>) -> Self {
        Self { value, how: how.into() }
    }
}

/// Measurements by the numbers' names in a profile.
type Numbers = BTreeMap<&'static str, Measured>;

/// Measures this host.
///
/// # Errors
/// It lends fewer than two CPUs, refuses a system call, or what predicts does not build.
pub fn calibrate(options: &Options) -> Result<Profile, Failure> {
    let [first, second, ..] = options.cpus[..] else {
        return Err(Failure::usage(
            "calibrate measures what passes between two CPUs, and this host lends one",
        ));
    };
    let mut numbers = Numbers::new();
    instructions::measure(options, first, &mut numbers);
    lines::measure(options, (first, second), &mut numbers);
    zeroing::measure(options, (first, second), &mut numbers);
    sleeping::measure(options, (first, second), &mut numbers)?;
    let mut profile = profile(&numbers, options.cpus.len());
    if !options.small {
        gap::measure(options, &profile, &mut numbers)?;
        profile = self::profile(&numbers, options.cpus.len());
    }
    Ok(profile)
}

/// A profile of these numbers; what is missing is that of the default profile.
fn profile(numbers: &Numbers, nr_cpus: usize) -> Profile {
    let default = Profile::names().next().expect("there is one");
    let mut costs = Profile::built_in(default).expect("it has the name").costs;
    for (name, measured) in numbers {
        *number_of(&mut costs, name) = to_field(name, measured.value);
    }
    (costs.cluster_cpus, costs.node_cpus) = (nr_cpus as u64, nr_cpus as u64);
    (costs.node, costs.remote) = (costs.cluster, costs.remote.max(costs.cluster));
    let source = |name: &str| match (numbers.get(name), name) {
        (Some(measured), _) => format!("measured: {}", measured.how),
        (None, "cpus.cluster" | "cpus.node") => "guess: the CPUs that this host lends are one node".into(),
        (None, "line.node") => "the same: one cluster is the node".into(),
        (None, _) => format!("guess: as in {default}"),
    };
    Profile::new(HostInfo::of_this_machine().line(), costs, source)
}

fn number_of<'c>(costs: &'c mut Costs, name: &str) -> &'c mut u64 {
    costs.number(name).expect("numbers are measured by their names in a profile")
}

/// Nanoseconds are kept as picoseconds, counts as they are.
fn to_field(name: &str, value: f64) -> Ps {
    let unit = if matches!(name, "page.warm-pages" | "store.buffer") { 1.0 } else { 1000.0 };
    (value * unit).round().max(0.0) as Ps
}

#[cfg(test)]
#[path = "../tests/calibrate.rs"]
mod tests;
