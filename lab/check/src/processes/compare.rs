//! Two systems of processes side by side, and the shortest steps on which they differ.

use super::{ProcessStep, ProcessSystem, StepOutcome};
use crate::compare::leave_out;
use std::fmt;

/// Steps on which two systems differ.
#[derive(Clone, Debug)]
pub struct ProcessDifference {
    /// The steps, as few as were found.
    pub steps: Vec<ProcessStep>,
    /// The systems by name, and what was seen after each step.
    pub sides: [(String, Vec<StepOutcome>); 2],
}

/// Carries out `steps` on both; where they differ, looks for fewer steps on which they still do.
pub fn compare_processes(
    one: &mut dyn ProcessSystem,
    other: &mut dyn ProcessSystem,
    steps: &[ProcessStep],
) -> Option<ProcessDifference> {
    let mut differ = |steps: &[ProcessStep]| one.run(steps) != other.run(steps);
    if !differ(steps) {
        return None;
    }
    let mut steps = steps.to_vec();
    leave_out(&mut steps, &mut differ);
    let sides = [(one.name().into(), one.run(&steps)), (other.name().into(), other.run(&steps))];
    Some(ProcessDifference { steps, sides })
}

impl fmt::Display for ProcessDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, left), (other, right)] = &self.sides;
        for (step, (a, b)) in self.steps.iter().zip(left.iter().zip(right)) {
            writeln!(f, "    {step}")?;
            if a.result == b.result {
                writeln!(f, "        // {:x?}", a.result)?;
            } else {
                writeln!(f, "        // {one}: {:x?}   {other}: {:x?}   <--", a.result, b.result)?;
            }
            for (mine, theirs) in a.states.iter().zip(&b.states).filter(|(mine, theirs)| mine != theirs) {
                writeln!(f, "process {} of {one}: {:#x?}", mine.0, mine.1)?;
                writeln!(f, "process {} of {other}: {:#x?}", theirs.0, theirs.1)?;
            }
        }
        Ok(())
    }
}
