//! Which lines an operation touches, and for which lines two operations contend.

use super::{Labels, Place, Touch};
use interleaf::machine::AccessKind;
use interleaf::units::{CACHE_LINE, CpuId};
use std::collections::BTreeMap;
use std::fmt;

/// How often one field was touched in one way from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The CPU.
    pub cpu: CpuId,
    /// First byte.
    pub addr: usize,
    /// Bytes.
    pub len_bytes: usize,
    /// Kind of the access.
    pub kind: AccessKind,
    /// Place in the source.
    pub place: Place,
    /// Number of accesses.
    pub count: u64,
}

/// What was touched, counted by field, kind and place, in the order of addresses.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    uses: BTreeMap<Key, Use>,
}

/// Address, length, kind, CPU, file, line, column.
type Key = (usize, usize, u8, u32, &'static str, u32, u32);

impl Footprint {
    /// Adds one access.
    pub fn add(&mut self, touch: &Touch) {
        let Touch { cpu, addr, len_bytes, kind, place } = *touch;
        let key = (addr, len_bytes, kind as u8, cpu.0, place.file(), place.line(), place.column());
        let first = Use { cpu, addr, len_bytes, kind, place, count: 0 };
        self.uses.entry(key).or_insert(first).count += 1;
    }

    /// Every use, in the order of addresses.
    pub fn uses(&self) -> impl Iterator<Item = &Use> {
        self.uses.values()
    }

    /// How often anything was touched in this way.
    pub fn total(&self, kind: AccessKind) -> u64 {
        self.uses().filter(|used| used.kind == kind).map(|used| used.count).sum()
    }

    /// The lines that were touched, ascending, each with whether it was written.
    pub fn lines(&self) -> BTreeMap<usize, bool> {
        let mut lines = BTreeMap::new();
        for used in self.uses().filter(|used| used.kind != AccessKind::Fence) {
            for line in used.lines() {
                *lines.entry(line).or_insert(false) |= used.kind.writes();
            }
        }
        lines
    }

    fn of_line(&self, line: usize) -> impl Iterator<Item = Use> {
        // A use that began on an earlier line may reach into this one, so all that lie before are examined.
        let until = (line + 1) * CACHE_LINE;
        let before = self.uses.range(..(until, 0, 0, 0, "", 0, 0)).map(|(_, used)| *used);
        before.filter(move |used| used.kind != AccessKind::Fence && used.lines().contains(&line))
    }
}

impl Use {
    /// The lines that the field lies on.
    fn lines(&self) -> std::ops::RangeInclusive<usize> {
        self.addr / CACHE_LINE..=(self.addr + self.len_bytes.max(1) - 1) / CACHE_LINE
    }
}

impl<'a> FromIterator<&'a Touch> for Footprint {
    fn from_iter<I: IntoIterator<Item = &'a Touch>>(touches: I) -> Self {
        let mut footprint = Self::default();
        touches.into_iter().for_each(|touch| footprint.add(touch));
        footprint
    }
}

/// A line that one operation writes and another touches.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The line's number: address divided by 64.
    pub line: usize,
    /// Whether both write it.
    pub both_write: bool,
    /// What the first does there.
    pub first: Vec<Use>,
    /// What the second does there.
    pub second: Vec<Use>,
}

/// The lines that `first` or `second` writes and the other touches, ascending.
pub fn conflicts(first: &Footprint, second: &Footprint) -> Vec<Conflict> {
    let theirs = second.lines();
    let shared = first.lines().into_iter().filter_map(|(line, written)| {
        let other = *theirs.get(&line)?;
        (written || other).then_some((line, written && other))
    });
    let conflict = |(line, both_write)| Conflict {
        line,
        both_write,
        first: first.of_line(line).collect(),
        second: second.of_line(line).collect(),
    };
    shared.map(conflict).collect()
}

impl Conflict {
    /// The names of the fields on the line that are written, once each.
    pub fn written_fields(&self, labels: &Labels) -> Vec<String> {
        let uses = self.first.iter().chain(&self.second).filter(|used| used.kind.writes());
        let mut names: Vec<_> = uses.map(|used| labels.name(used.addr)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The conflict as text: the line, and below it each operation's accesses to its fields.
    pub fn show<'a>(&'a self, labels: &'a Labels) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let how = if self.both_write { "both write" } else { "one writes, one reads" };
            writeln!(f, "line {:#x}: {how}", self.line * CACHE_LINE)?;
            for (who, uses) in [("first", &self.first), ("second", &self.second)] {
                for used in uses {
                    let name = labels.name(used.addr);
                    let Use { count, kind, place, .. } = used;
                    writeln!(
                        f,
                        "  {who:6} {count:>8} x {kind:?} {name} at {}:{}",
                        place.file(),
                        place.line()
                    )?;
                }
            }
            Ok(())
        })
    }
}
