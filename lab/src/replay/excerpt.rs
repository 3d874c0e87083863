//! What the text of a report shows of long lists: the JSON has all of them.

use super::report::LifeReport;
use crate::show::table::{self, grouped, largest};
use std::collections::{BTreeMap, HashSet};

/// The most address spaces that have a row each.
const LIVES_MOST: usize = 20;
/// The most programs that are named of the others.
const PROGRAMS_MOST: usize = 5;
/// The most lines of a map.
const LINES_MOST: usize = 60;

/// The lives as a table: those with differences, and those with the most events; the others summed up.
pub fn lives(all: &[LifeReport]) -> String {
    let shown = largest(all, LIVES_MOST, |life| (life.unexplained, life.events));
    let row = |life: &&LifeReport| {
        let LifeReport { pid, program, forked_from, events, end, .. } = life;
        let from = forked_from.map_or("exec".to_string(), |parent| format!("fork of {parent}"));
        vec![pid.to_string(), program.clone(), from, grouped(*events as i64), end.clone()]
    };
    let header = ["process", "program", "from", "events", "replayed to"];
    table::of(&header, shown.iter().map(row)) + &others(all, &shown)
}

fn others(all: &[LifeReport], shown: &[&LifeReport]) -> String {
    if all.len() == shown.len() {
        return String::new();
    }
    let mut by_program: BTreeMap<&str, i64> = BTreeMap::new();
    let (mut count, mut events) = (0, 0);
    let is_shown: HashSet<*const LifeReport> = shown.iter().map(|life| std::ptr::from_ref(*life)).collect();
    for life in all.iter().filter(|life| !is_shown.contains(&std::ptr::from_ref(*life))) {
        *by_program.entry(&life.program).or_default() += 1;
        count += 1;
        events += life.events as i64;
    }
    let mut by_program: Vec<(&str, i64)> = by_program.into_iter().collect();
    by_program.sort_by_key(|(_, count)| -count);
    let named = by_program.iter().take(PROGRAMS_MOST);
    let named: Vec<String> = named.map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
    format!(
        "and {} other address spaces with {} events: {}{}\nall of them: --json\n",
        grouped(count),
        grouped(events),
        named.join(", "),
        if by_program.len() > PROGRAMS_MOST { ", ..." } else { "" },
    )
}

/// The lines of a map; of a long one those that the other has not, by place and rights.
pub fn map(lines: &[String], other: &[String]) -> Vec<String> {
    if lines.len() <= LINES_MOST {
        return lines.to_vec();
    }
    let key = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let others: HashSet<String> = other.iter().map(key).collect();
    let differ = lines.iter().filter(|line| !others.contains(&key(line))).take(LINES_MOST);
    let mut shown: Vec<String> = differ.cloned().collect();
    shown.push(format!("... of {} mappings, those that differ; all of them: --json", lines.len()));
    shown
}

#[cfg(test)]
#[path = "tests/excerpt.rs"]
mod tests;
