//! The checked-in matrix: which fields each pair may share at each distance.

use super::fields::{self, Field};
use super::{Cell, Distance};
use std::collections::BTreeSet;

/// One line for each pair, one word for each distance in the order of [`Distance::ALL`]: letters of
/// [`FIELDS`](super::FIELDS), or `-`.
const PINNED: &str = include_str!("../../../tests/counted/matrix.txt");

/// The word of a cell; `.` where the two never commuted.
pub(super) fn word(cell: &Cell) -> String {
    let field = |name| fields::find(name).filter(|field| !field.is_seldom);
    let letters: BTreeSet<char> = names(cell).filter_map(field).map(|field| field.letter).collect();
    match letters.is_empty() {
        true if cell.states == 0 => ".".into(),
        true => "-".into(),
        false => letters.into_iter().collect(),
    }
}

/// The names of what a cell's lines hold: a line may hold several things.
pub(super) fn names(cell: &Cell) -> impl Iterator<Item = &str> {
    cell.lines.keys().flat_map(|name| name.split(" + "))
}

/// What a cell shares that is not pinned, by name.
pub(super) fn new_in(cell: &Cell) -> Vec<&str> {
    let at = Distance::ALL.iter().position(|&distance| distance == cell.distance).unwrap_or(0);
    let [first, second] = cell.pair.map(super::Operation::name);
    let rows = PINNED.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut of_pair = rows.filter(|words| words.starts_with(&[first, second]));
    let word = of_pair.find_map(|words| words.get(2 + at).copied()).unwrap_or_default();
    let is_known = |field: &Field| field.is_seldom || word.contains(field.letter);
    names(cell).filter(|name| !fields::find(name).is_some_and(is_known)).collect()
}
