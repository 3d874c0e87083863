//! Two maps compared: Linux's at the end of a process, and ours.
//!
//! ```text
//!   Linux  |dev r--|dev r--|      |file rw-      |file rw-|  rights, sharing: page by page
//!   ours   |stand-in r--   |      |file rw-               |  edges, attributes: of memory that is followed
//!                                                ^ differs
//! ```
//!
//! Edges count between memory that is joined by the same rules here: anonymous memory and files. What stands
//! in for something else differs in flags that mean nothing.

use super::objects::Objects;
use super::setup::{ReplayMachine, flag_words, is_anonymous, said_flags, shown_flags};
use super::step::STAND_IN;
use crate::trace::{Image, Mapping};
use interleaf::space::AddressSpace;
use interleaf::vma::{VmaAttributes, VmaFlags};
use std::collections::BTreeSet;
use std::ops::Range;

/// A mapping of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// As Linux writes them: `rw-p`.
    pub rights: String,
    /// What it is attributed beyond that.
    pub flags: VmaFlags,
    /// Whether it is joined and attributed by the same rules here: private memory without a file, and files.
    pub is_followed: bool,
    /// As it is printed.
    pub text: String,
}

/// What differs, at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Rights or sharing of these pages; `-` where nothing is mapped.
    Rights(Range<u64>, String, String),
    /// One side has a mapping begin here.
    Edge(u64, &'static str),
    /// Attributes of these pages.
    Flags(Range<u64>, String, String),
}

impl Gap {
    /// Where it begins.
    pub fn address(&self) -> u64 {
        match self {
            Gap::Rights(range, ..) | Gap::Flags(range, ..) => range.start,
            Gap::Edge(at, _) => *at,
        }
    }

    /// One line.
    pub fn text(&self) -> String {
        match self {
            Gap::Rights(range, linux, ours) => {
                format!("{:x}-{:x}: Linux {linux}, here {ours}", range.start, range.end)
            }
            Gap::Edge(at, who) => format!("{at:x}: a mapping begins only {who}"),
            Gap::Flags(range, linux, ours) => {
                format!("{:x}-{:x}: Linux says {linux}, here {ours}", range.start, range.end)
            }
        }
    }
}

/// Linux's map, without what lies outside of user space.
pub fn linux_lines(image: &Image, objects: &Objects<'_>) -> Vec<Line> {
    let line = |m: &Mapping| Line {
        start: m.start,
        end: m.end,
        rights: m.rights.clone(),
        flags: said_flags(m),
        is_followed: is_anonymous(m) || objects.is_file(m),
        text: format!("{} [{}]", m.line(), m.flags),
    };
    image.mappings.iter().filter(|m| m.name != "[vsyscall]").map(line).collect()
}

/// Our map.
pub fn our_lines(space: &AddressSpace<'_, ReplayMachine>) -> Vec<Line> {
    let mut lines = Vec::new();
    space.inspect().each_vma(|vma| lines.push(our_line(vma)));
    lines
}

fn our_line(vma: &VmaAttributes) -> Line {
    let (start, end) = (vma.range.start.addr().0, vma.range.end.addr().0);
    let letter = |flag, letter| if vma.flags.contains(flag) { letter } else { '-' };
    let rights: String = [
        letter(VmaFlags::READ, 'r'),
        letter(VmaFlags::WRITE, 'w'),
        letter(VmaFlags::EXECUTE, 'x'),
        if vma.flags.contains(VmaFlags::SHARED) { 's' } else { 'p' },
    ]
    .iter()
    .collect();
    let flags = shown_flags(vma.flags);
    let text = format!("{start:x}-{end:x} {rights} {} identity {:?}", flag_words(flags), vma.anon);
    Line { start, end, rights, flags, is_followed: !vma.flags.contains(STAND_IN), text }
}

/// Everything in which the maps differ, by rising address.
pub fn compare(linux: &[Line], ours: &[Line]) -> Vec<Gap> {
    let points: BTreeSet<u64> = linux.iter().chain(ours).flat_map(|line| [line.start, line.end]).collect();
    let points: Vec<u64> = points.into_iter().collect();
    let mut gaps: Vec<Gap> = Vec::new();
    for pair in points.windows(2) {
        let range = pair[0]..pair[1];
        let (theirs, mine) = (find(linux, range.start), find(ours, range.start));
        edge(&mut gaps, linux, ours, range.start);
        let said = |line: Option<&Line>| line.map_or("-".to_string(), |line| line.rights.clone());
        match (said(theirs), said(mine)) {
            (a, b) if a != b => push_rights(&mut gaps, range, a, b),
            _ => flags(&mut gaps, range, theirs, mine),
        }
    }
    gaps
}

fn find(lines: &[Line], at: u64) -> Option<&Line> {
    let index = lines.partition_point(|line| line.end <= at);
    lines.get(index).filter(|line| line.start <= at)
}

/// Joins neighbours that differ in the same way.
fn push_rights(gaps: &mut Vec<Gap>, range: Range<u64>, linux: String, ours: String) {
    if let Some(Gap::Rights(last, a, b)) = gaps.last_mut()
        && (last.end, &*a, &*b) == (range.start, &linux, &ours)
    {
        last.end = range.end;
        return;
    }
    gaps.push(Gap::Rights(range, linux, ours));
}

fn flags(gaps: &mut Vec<Gap>, range: Range<u64>, linux: Option<&Line>, ours: Option<&Line>) {
    let (Some(linux), Some(ours)) = (linux, ours) else { return };
    if linux.is_followed && ours.is_followed && linux.flags != ours.flags {
        gaps.push(Gap::Flags(range, flag_words(linux.flags), flag_words(ours.flags)));
    }
}

/// Whether a mapping begins at `at` on one side only, between memory that is followed.
fn edge(gaps: &mut Vec<Gap>, linux: &[Line], ours: &[Line], at: u64) {
    let (Some(before), Some(after)) = (find(linux, at.wrapping_sub(1)), find(linux, at)) else { return };
    let begins = |lines: &[Line]| find(lines, at).is_some_and(|line| line.start == at);
    let is_followed = |at: u64| find(ours, at).is_none_or(|line| line.is_followed);
    let ours_are = is_followed(at.wrapping_sub(1)) && is_followed(at);
    if !before.is_followed || !after.is_followed || !ours_are || begins(linux) == begins(ours) {
        return;
    }
    gaps.push(Gap::Edge(at, if begins(linux) { "in Linux" } else { "here" }));
}

#[cfg(test)]
#[path = "tests/final_map.rs"]
mod tests;
