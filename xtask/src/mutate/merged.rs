//! Mutations that are played at the point of another one: the code for all kinds of memory is one now, and
//! so is its point. Each keeps its name, its row and its test, which has to notice by itself.

/// The name of a mutation, and the point in the sources at which it is played.
const MERGED: &[(&str, &str)] = &[
    ("fault.zero-page-not-flushed", "cow.flush-skipped"),
    ("zero.huge-not-flushed", "cow.flush-skipped"),
    ("pool.copy-flush-skipped", "cow.flush-skipped"),
    ("thp.entry-not-rechecked", "fault.entry-not-rechecked"),
    ("sizes.entries-not-rechecked", "fault.entry-not-rechecked"),
    ("pool.entry-not-rechecked", "fault.entry-not-rechecked"),
    ("thp.region-not-rechecked", "fault.region-not-rechecked"),
    ("sizes.range-not-rechecked", "fault.region-not-rechecked"),
    ("shared-thp.region-not-rechecked", "fault.region-not-rechecked"),
    ("thp.fork-ignored", "fault.fork-cursor-ignored"),
    ("sizes.fork-ignored", "fault.fork-cursor-ignored"),
    ("zero.fork-ignored", "fault.fork-cursor-ignored"),
    ("pool.fork-ignored", "fault.fork-cursor-ignored"),
    ("thp.fork-cursor-not-advanced", "fork.leaf-cursor-not-advanced"),
    ("zero.fork-cursor-not-advanced", "fork.leaf-cursor-not-advanced"),
    ("pool.fork-cursor-not-advanced", "fork.leaf-cursor-not-advanced"),
    ("thp.fork-flush-skipped", "fork.leaf-flush-skipped"),
    ("pool.fork-flush-skipped", "fork.leaf-flush-skipped"),
    ("thp.fork-left-writable", "fork.parent-left-writable"),
    ("zap.shared-huge-uncounted", "exit.huge-uncounted"),
    ("zero.huge-leaf-writable", "fault.zero-page-writable"),
    ("zero.known-leaf-writable", "fault.zero-page-writable"),
];

/// The point in the sources at which the mutation of that name is played: its own, or the one it shares.
pub fn point_of(name: &'static str) -> &'static str {
    MERGED.iter().find(|(merged, _)| *merged == name).map_or(name, |(_, point)| point)
}

/// The names of mutations that are played at another one's point.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    MERGED.iter().map(|(name, _)| *name)
}
