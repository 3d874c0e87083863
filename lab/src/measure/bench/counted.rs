//! Figures that `interleaf-check` counts exactly, on the seeded and on the recording machine.

use super::{Bar, Figure, Options};
use crate::error::Failure;
use crate::measure::checked;

/// The counts called `name`, each under the name and in the unit given, and held against `bar`.
pub(super) fn figures<const N: usize>(
    options: &Options,
    name: &str,
    figures: [(&'static str, &'static str); N],
    bar: Bar,
) -> Result<Vec<Figure>, Failure> {
    let mut counts = checked::counts(name, options.size(false, true))?;
    let figure = |(name, unit)| {
        let at = counts.iter().position(|count| count.name == name);
        let count = counts.swap_remove(at.ok_or_else(|| Failure::check(format!("{name} was not counted")))?);
        let figure = Figure::count(name, count.value, unit).with_bar(bar);
        Ok(if count.parts.is_empty() { figure } else { figure.with_parts(count.parts) })
    };
    figures.into_iter().map(figure).collect()
}
