//! How the matrix reaches people and programs.

use super::fields;
use super::{Cell, Distance, pinned};
use interleaf_lab::show::table::{self, grouped};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The matrix. The field names of this and of its parts are the JSON's and stay.
#[derive(Debug, Serialize)]
pub struct Report {
    /// States that were wanted of each pair and distance.
    pub states: u64,
    /// The first seed.
    pub seed: u64,
    /// For each distance, how many pairs share nothing.
    pub distances: Vec<AtDistance>,
    /// What is shared, the most frequent first.
    pub fields: Vec<SharedField>,
    /// Every pair at every distance.
    pub cells: Vec<Listed>,
    /// What is shared and not pinned; or nothing.
    pub new: Vec<String>,
}

/// The pairs at a distance.
#[derive(Debug, Serialize)]
pub struct AtDistance {
    /// The distance.
    pub distance: &'static str,
    /// Pairs that commuted in some state.
    pub pairs: u64,
    /// Those that shared no line in any.
    pub free: u64,
    /// States in which pairs commuted.
    pub states: u64,
    /// Those in which no line was shared.
    pub free_states: u64,
}

/// What lies on shared lines.
#[derive(Debug, Serialize)]
pub struct SharedField {
    /// Its letter in the matrix.
    pub letter: char,
    /// Its name.
    pub field: String,
    /// Pairs and distances at which it was shared.
    pub cells: u64,
    /// States in which it was.
    pub states: u64,
    /// Those in which the two used different words of the line.
    pub neighbours: u64,
    /// The place that writes it most often.
    pub write: String,
    /// Where the other is then.
    pub other: String,
    /// Why.
    pub reason: &'static str,
}

/// A pair at a distance.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// The operations.
    pub first: &'static str,
    /// The second.
    pub second: &'static str,
    /// How far they are from each other.
    pub distance: &'static str,
    /// States in which they commuted.
    pub states: u64,
    /// Those in which they shared no line.
    pub free: u64,
    /// The lines of the others.
    pub lines: Vec<Line>,
}

/// Lines of one name that a pair shares.
#[derive(Debug, Serialize)]
pub struct Line {
    /// What lies there.
    pub field: String,
    /// States in which they were shared.
    pub states: u64,
    /// Those in which the two used different words.
    pub neighbours: u64,
    /// Where one is that writes.
    pub write: String,
    /// Where the other is.
    pub other: String,
}

impl Report {
    /// Sums up.
    #[must_use]
    pub fn of(cells: &[Cell], states: u64, seed: u64) -> Self {
        let distances = Distance::ALL.iter().map(|&distance| AtDistance::of(cells, distance)).collect();
        let new = cells.iter().flat_map(|cell| {
            let [first, second] = cell.pair;
            pinned::new_in(cell)
                .into_iter()
                .map(move |name| format!("{first} beside {second}, {}: {name}", cell.distance))
        });
        let new = new.collect();
        Self {
            states,
            seed,
            distances,
            fields: fields(cells),
            cells: cells.iter().map(Listed::of).collect(),
            new,
        }
    }

    /// The shares, the fields and the matrix.
    #[must_use]
    pub fn text(&self, cells: &[Cell]) -> String {
        let share = |part: u64, whole: u64| format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64);
        let row = |at: &AtDistance| {
            vec![
                at.distance.into(),
                grouped(at.pairs as i64),
                grouped(at.free as i64),
                grouped(at.states as i64),
                share(at.free_states, at.states),
            ]
        };
        let header = ["distance", "pairs", "without a line", "states", "without"];
        let mut text = table::of(&header, self.distances.iter().map(row));
        text += &format!("\n{}\n{}", self.fields_text(), matrix(cells));
        for new in &self.new {
            let _ = write!(text, "\nnot pinned: {new}");
        }
        text
    }

    fn fields_text(&self) -> String {
        let row = |field: &SharedField| {
            vec![
                field.letter.to_string(),
                field.field.clone(),
                grouped(field.cells as i64),
                grouped(field.states as i64),
                format!("{}, {}", field.write, field.other),
                field.reason.into(),
            ]
        };
        table::of(&["", "field", "cells", "states", "sites", "why"], self.fields.iter().map(row))
    }
}

/// One line for each pair, as it is pinned.
pub(super) fn matrix(cells: &[Cell]) -> String {
    let mut text = String::new();
    for row in cells.chunks(Distance::ALL.len()) {
        let [first, second] = row[0].pair;
        let words: Vec<_> = row.iter().map(|cell| format!("{:9}", pinned::word(cell))).collect();
        let _ = writeln!(text, "{first:10} {second:10} {}", words.concat().trim_end());
    }
    text
}

impl AtDistance {
    fn of(cells: &[Cell], distance: Distance) -> Self {
        let mut sum = Self { distance: distance.name(), pairs: 0, free: 0, states: 0, free_states: 0 };
        for cell in cells.iter().filter(|cell| cell.distance == distance && cell.states > 0) {
            sum.pairs += 1;
            sum.free += u64::from(cell.free == cell.states);
            sum.states += cell.states;
            sum.free_states += cell.free;
        }
        sum
    }
}

impl Listed {
    fn of(cell: &Cell) -> Self {
        let line = |(field, shared): (&String, &super::Shared)| {
            let [write, other] = shared.sites.clone();
            let (states, neighbours) = (shared.states, shared.neighbours);
            Line { field: field.clone(), states, neighbours, write, other }
        };
        Self {
            first: cell.pair[0].name(),
            second: cell.pair[1].name(),
            distance: cell.distance.name(),
            states: cell.states,
            free: cell.free,
            lines: cell.lines.iter().map(line).collect(),
        }
    }
}

/// Cells, states, states with neighbours; and states by the sites.
type Sums<'a> = (u64, u64, u64, BTreeMap<&'a [String; 2], u64>);

/// What is shared, in all cells together.
fn fields(cells: &[Cell]) -> Vec<SharedField> {
    let mut sums: BTreeMap<&str, Sums<'_>> = BTreeMap::new();
    for (name, shared) in cells.iter().flat_map(|cell| &cell.lines) {
        let (cells, states, neighbours, sites) = sums.entry(name).or_default();
        *cells += 1;
        *states += shared.states;
        *neighbours += shared.neighbours;
        *sites.entry(&shared.sites).or_default() += shared.states;
    }
    let sum = |(name, (cells, states, neighbours, sites)): (&str, Sums<'_>)| {
        let known = name.split(" + ").find_map(fields::find);
        let most = sites.into_iter().max_by_key(|(_, states)| *states).map(|(sites, _)| sites.clone());
        let [write, other] = most.unwrap_or_default();
        SharedField {
            letter: known.map_or('?', |field| field.letter),
            field: name.into(),
            cells,
            states,
            neighbours,
            write,
            other,
            reason: known.map_or("unknown", |field| field.reason),
        }
    };
    let mut fields: Vec<_> = sums.into_iter().map(sum).collect();
    fields.sort_by_key(|field| Reverse(field.states));
    fields
}
