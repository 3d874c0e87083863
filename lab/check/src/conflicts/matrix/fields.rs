//! What can lie on a line that two operations share, and why that is so.

/// What lies on a line, by a name that [`Names`](interleaf_lab::machine::watch::Names) gives.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its letter in the matrix.
    pub letter: char,
    /// Its name.
    pub name: &'static str,
    /// Why operations that commute share it.
    pub reason: &'static str,
    /// Whether it is shared once for many operations, by any of them that comes at the time: it is not
    /// pinned, and not in the matrix.
    pub is_seldom: bool,
}

const fn field(letter: char, name: &'static str, reason: &'static str) -> Field {
    Field { letter, name, reason, is_seldom: false }
}

const fn seldom(letter: char, name: &'static str, reason: &'static str) -> Field {
    Field { is_seldom: true, ..field(letter, name, reason) }
}

/// The records of two frames, each used by one CPU alone.
pub const NEIGHBOURS: &str = "the records of two frames";

/// Every field that operations are known to share.
pub const FIELDS: &[Field] = &[
    field(
        'L',
        "the space's lock",
        "calls lock the space, also those that only read, or change another range",
    ),
    field('G', "the space's flush generations", "an edit counts as pending, and raises the generation"),
    field('F', "a CPU's flush requests", "an edit of entries that others may have cached flushes their CPUs"),
    field(
        'R',
        "the root of the space's index",
        "a changed set of mappings is published there; lookups read it",
    ),
    field(
        'S',
        "the contents of a slab of nodes or mappings",
        "records of mappings and objects, nodes of the index",
    ),
    field('X', "the space's fixed fields", "how far a fork has come, which faults ask"),
    field('H', "the end of the space's heap", "brk reads and moves it"),
    field('T', "the lock of a table", "entries change under it; upper tables are locked to link lower ones"),
    field('D', "the contents of a table", "eight entries are a line; walks read entries of upper tables"),
    field('M', "the record of a frame", "counts of one frame"),
    field('A', "the trees of spaces", "two children of one space are linked to it"),
    field('U', "the contents of a user frame", "the program's own accesses to one page"),
    seldom('N', NEIGHBOURS, "a record is half a line; which frames are neighbours is chance"),
    seldom('E', "the RCU epoch", "advanced once for each lot of garbage; read sections read it"),
    seldom('C', "a CPU's read sections, last hits and garbage", "an advance of the epoch asks each CPU"),
    seldom('Z', "a zone's budget", "credit for a region, once for a refill of its own"),
    seldom('B', "a region's free lists and their lock", "a refill of a CPU's cache, once for 128 frames"),
    seldom('K', "frames that go back to a region", "frames of another CPU's region, once for a drain"),
    seldom('I', "hints of regions", "a region's contents have changed much"),
    seldom('P', "a CPU's regions", "a CPU has another region"),
    seldom('O', "the contents of a taken frame", "the pools' own lists, once for 64 objects"),
];

/// The field of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}
