//! The floors of the library, of the lab and of the kernel: their names and heights.

/// A crate that is built of floors.
pub struct Shelf {
    /// Its name in messages.
    pub name: &'static str,
    /// Where its floors lie, with a slash at the end.
    folder: &'static str,
    /// The floors and their heights. Equal height: strangers.
    floors: &'static [(&'static str, u32)],
    /// The files in the folder that belong to no floor: they hold all of them, or a macro that all may use.
    roots: &'static [&'static str],
    /// Code that stands beside the floors: code compiled for tests alone, and the one file by which machine
    /// code calls the kernel above it.
    beside: &'static [&'static str],
    /// The floor from which everything above takes its atomics.
    pub door: Option<&'static str>,
}

const SHELVES: &[Shelf] = &[LIBRARY, LAB, KERNEL];

const LIBRARY: Shelf = Shelf {
    name: "library",
    folder: "vm/src/",
    floors: &[
        ("units", 0),
        ("machine", 1),
        ("sync", 2),
        ("index", 3),
        ("work", 3),
        ("frame", 4),
        ("table", 5),
        ("tlb", 5),
        ("vma", 5),
        ("object", 5),
        ("anon", 5),
        ("space", 6),
    ],
    roots: &["lib", "mutant"],
    beside: &["vm/src/machine/testing/"],
    door: Some("sync"),
};

const LAB: Shelf = Shelf {
    name: "lab",
    folder: "lab/src/",
    floors: &[
        ("error", 0),
        ("linux_rules", 0),
        ("median", 0),
        ("rng", 0),
        ("os", 1),
        ("show", 1),
        ("machine", 2),
        ("trace", 2),
        ("replay", 3),
        ("measure", 4),
        ("boot", 5),
        ("cli", 6),
    ],
    roots: &["lib", "main"],
    beside: &["lab/src/tests/"],
    door: None,
};

const KERNEL: Shelf = Shelf {
    name: "kernel",
    folder: "kernel/src/",
    floors: &[
        ("core", 0),
        ("arch", 1),
        ("report", 2),
        ("memory", 3),
        ("task", 4),
        ("vfs", 5),
        ("linux", 6),
        ("selftest", 7),
    ],
    roots: &["lib", "main"],
    beside: &["kernel/src/arch/upcalls.rs"],
    door: None,
};

/// The shelf and the floor that a file belongs to.
pub fn of(file: &str) -> Option<(&'static Shelf, &str)> {
    let shelf = SHELVES.iter().find(|shelf| file.starts_with(shelf.folder))?;
    if shelf.beside.iter().any(|folder| file.starts_with(folder)) {
        return None;
    }
    let first = file.strip_prefix(shelf.folder)?.split('/').next()?;
    let floor = first.strip_suffix(".rs").unwrap_or(first);
    (!shelf.roots.contains(&floor)).then_some((shelf, floor))
}

impl Shelf {
    /// Height of a floor; none where there is no such floor.
    pub fn height(&self, floor: &str) -> Option<u32> {
        self.floors.iter().find(|f| f.0 == floor).map(|f| f.1)
    }

    /// Number of modules that a file is deep: 1 for a floor itself.
    pub fn depth_of(&self, file: &str) -> usize {
        let inside = file.strip_prefix(self.folder).unwrap_or(file);
        let parts = inside.split('/').count();
        if inside.ends_with("/mod.rs") { parts - 1 } else { parts }
    }

    /// Path of a floor, without the end that makes it a file.
    pub fn root_of(&self, floor: &str) -> String {
        format!("{}{floor}", self.folder)
    }

    /// Whether `file` is the one whose inner attributes hold for all of `floor`.
    pub fn holds_whole(&self, file: &str, floor: &str) -> bool {
        let root = self.root_of(floor);
        file == format!("{root}.rs") || file == format!("{root}/mod.rs")
    }
}
