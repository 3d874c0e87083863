//! Fuzzing address spaces: random operations with random words, on CPUs that take turns, memory refused now
//! and then.
//!
//! | target | compared with |
//! |---|---|
//! | calls and forks against the model | the plain model: each answer, and the state in the end |
//! | everything, recounted | what must hold of any state; refusals that change nothing |
//! | every allocation refused | the state before, and the answer without a refusal |
//! | refused while others fault | the same, on the seeded machine |
//!
//! After each sequence everything is recounted, and all frames are back when the spaces have ended.

mod everything;
mod modelled;
pub(super) mod step;
pub(super) mod world;

use super::attempt::{failure, shorten};
use super::{Fuzzer, Group, Played, mishap, mishap_race};
use interleaf::machine::Format;
use interleaf::table::format::{Aarch64, X86_64, X86_64La57};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::SoftMachine;
use interleaf_lab::rng::Rng;
use std::fmt::Write;
use step::{Circumstances, Draw, Scope, Step, Tables};

/// Machines for sequences, one of each format.
pub struct Spaces {
    x86: SoftMachine<Host, X86_64>,
    la57: SoftMachine<Host, X86_64La57>,
    aarch64: SoftMachine<Host, Aarch64>,
}

/// What is done with a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Modelled,
    Everything,
    EveryAllocation,
    Race,
}

/// A case: its circumstances, and its steps, of which some may be left out.
struct Case {
    target: Target,
    circumstances: Circumstances,
    steps: Vec<Step>,
}

impl Spaces {
    /// Builds the machines.
    ///
    /// # Errors
    /// What the host says.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { x86: world::machine()?, la57: world::machine()?, aarch64: world::machine()? })
    }

    fn play_steps(&mut self, case: &Case, steps: &[Step]) -> Result<u64, String> {
        match case.circumstances.tables {
            Tables::X86 => play_on(&mut self.x86, case, steps),
            Tables::X86La57 => play_on(&mut self.la57, case, steps),
            Tables::Aarch64 => play_on(&mut self.aarch64, case, steps),
        }
    }
}

fn play_on<F: Format>(
    machine: &mut SoftMachine<Host, F>,
    case: &Case,
    steps: &[Step],
) -> Result<u64, String> {
    match case.target {
        Target::Modelled => modelled::play(machine, &case.circumstances, steps),
        Target::Everything => everything::play(machine, &case.circumstances, steps),
        Target::EveryAllocation | Target::Race => mishap::play(machine, &case.circumstances, steps),
    }
}

impl Case {
    fn of_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let targets =
            [(6, Target::Modelled), (6, Target::Everything), (1, Target::EveryAllocation), (2, Target::Race)];
        let target = rng.weighted(&targets);
        let scope = if target == Target::Modelled { Scope::Modelled } else { Scope::Everything };
        let circumstances = Circumstances::draw(&mut rng, scope);
        let longest = if target == Target::EveryAllocation { 24 } else { 250 };
        let length = 2 + rng.below(longest);
        let refusals = target != Target::EveryAllocation;
        let steps = Draw::new(rng, &circumstances, refusals).steps(length);
        Self { target, circumstances, steps }
    }

    fn name(&self) -> &'static str {
        match self.target {
            Target::Modelled => "calls against the model",
            Target::Everything => "everything, recounted",
            Target::EveryAllocation => "every allocation refused",
            Target::Race => "refused while others fault",
        }
    }
}

impl Fuzzer for Spaces {
    fn play(&mut self, seed: u64) -> Result<Played, String> {
        let case = Case::of_seed(seed);
        let executions = match case.target {
            Target::Race => mishap_race::play(seed)?,
            _ => self.play_steps(&case, &case.steps)?,
        };
        Ok(Played { target: case.name(), executions })
    }

    fn shortest(&mut self, seed: u64) -> String {
        let case = Case::of_seed(seed);
        if case.target == Target::Race {
            return mishap_race::play(seed).err().unwrap_or_else(|| "it does not fail again".into());
        }
        let (steps, why) = shorten(&case.steps, |steps| {
            failure((Group::Space, seed), || Self::new().map_err(|e| e.to_string())?.play_steps(&case, steps))
        });
        let Circumstances { tables, path, cpus, setting, .. } = &case.circumstances;
        let mut text = format!("{}; {tables:?}, {path:?}, {cpus} CPUs, {setting:x?}\n", case.name());
        for step in &steps {
            // Writing to a string does not fail.
            let _ = writeln!(text, "    {step:x?}");
        }
        text + &why
    }
}
