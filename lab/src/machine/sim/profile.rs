//! What things cost on a machine: a text file in which each number has its source.
//!
//! ```text
//! # Two sockets of Cascade Lake
//! line.cluster   47 ns    nviennot/core-to-core-latency, Xeon Platinum 8275CL
//! ipi.deliver   700 ns    guess: ...
//! ```
//!
//! One line for each number: name, value, unit, source. A source that begins with `guess` is one, and is
//! reported as one. No number is fitted to a curve that a prediction is held against.

use super::addresses::LINES_OF_PAGE;
use std::fmt;

/// Picoseconds.
pub type Ps = u64;

macro_rules! costs {
    ($($field:ident $name:literal $unit:ident $about:literal)*) => {
        /// What things cost.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Costs {
            $(#[doc = $about] pub $field: u64,)*
        }

        /// Every number: its name in files, its unit, what it is.
        const FIELDS: &[Field] = &[$(Field {
            name: $name,
            unit: Unit::$unit,
            about: $about,
            get: |costs| &costs.$field,
            of: |costs| &mut costs.$field,
        },)*];
    };
}

costs! {
    gap "gap" Ns "Instructions between two accesses, and the access itself where the CPU has the line."
    update "update" Ns "What a read-modify-write takes more than a load, on a line that the CPU has."
    fence "fence" Ns "A full fence."
    pause "pause" Ns "One round of a wait loop."
    llc "line.llc" Ns "A clean line from the last-level cache of the cluster."
    cluster "line.cluster" Ns "A line that another CPU of the cluster has, when one of them writes."
    node "line.node" Ns "The same, of another cluster of the node."
    remote "line.remote" Ns "The same, of another node."
    memory "memory.local" Ns "A line from the memory of the node."
    memory_remote "memory.remote" Ns "A line from the memory of another node."
    ipi_send "ipi.send" Ns "Sending an interrupt, for each target."
    ipi_deliver "ipi.deliver" Ns "From there until the target takes it."
    ipi_handle "ipi.handle" Ns "Entry and return of the target."
    sleep "sleep" Ns "Going to sleep."
    wake "wake" Ns "Waking a sleeper: the part of the CPU that wakes it."
    wake_latency "wake.latency" Ns "From there until the sleeper goes on."
    zero_warm "page.warm" Ns "Zeroing a page that is in the CPU's own caches, until its stores have drained."
    zero_cold "page.cold" Ns "The same of one that is not, with the node's memory for the CPU alone."
    page_bandwidth "page.bandwidth" Ns "What each such page takes of the node's memory bandwidth."
    warm_pages "page.warm-pages" Pages "Pages written last that are in the CPU's own caches."
    store_buffer "store.buffer" Lines "Lines of a page that drain while the CPU that wrote it goes on."
    cluster_cpus "cpus.cluster" Cpus "CPUs that share a last-level cache."
    node_cpus "cpus.node" Cpus "CPUs of a node."
}

/// A number of a profile.
struct Field {
    name: &'static str,
    unit: Unit,
    about: &'static str,
    get: fn(&Costs) -> &u64,
    of: fn(&mut Costs) -> &mut u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Ns,
    Pages,
    Lines,
    Cpus,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Pages => "pages",
            Unit::Lines => "lines",
            Unit::Cpus => "cpus",
        }
    }

    /// What a field holds for a value in a file.
    fn read(self, value: &str) -> Option<u64> {
        match self {
            Unit::Ns => {
                let ns: f64 = value.parse().ok()?;
                (0.0..=1e9).contains(&ns).then_some((ns * 1000.0).round() as u64)
            }
            Unit::Pages => value.parse().ok(),
            Unit::Lines => value.parse().ok().filter(|lines| (0..=LINES_OF_PAGE.into()).contains(lines)),
            Unit::Cpus => value.parse().ok().filter(|cpus| (1..=4096).contains(cpus)),
        }
    }

    fn show(self, value: u64) -> String {
        match self {
            Unit::Ns if value.is_multiple_of(1000) => (value / 1000).to_string(),
            Unit::Ns => format!("{:.1}", value as f64 / 1000.0),
            Unit::Pages | Unit::Lines | Unit::Cpus => value.to_string(),
        }
    }
}

/// A machine: its costs, and where each is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it is of.
    pub about: String,
    /// Its numbers.
    pub costs: Costs,
    /// The source of each, in the order in which files list them.
    sources: Vec<String>,
}

/// The profiles of this repository, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("cascade-lake", include_str!("profiles/cascade-lake.txt")),
    ("ice-lake", include_str!("profiles/ice-lake.txt")),
    ("epyc-milan", include_str!("profiles/epyc-milan.txt")),
];

impl Profile {
    /// The names of the profiles of this repository; the first is the default.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A profile of this repository.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(text).expect("a test reads each"))
    }

    /// A profile with these numbers; `sources` says by a number's name where it is from.
    pub fn new(about: impl Into<String>, costs: Costs, sources: impl Fn(&str) -> String) -> Self {
        let sources = FIELDS.iter().map(|field| sources(field.name)).collect();
        Self { about: about.into(), costs, sources }
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// One line: which number is missing, twice there, without a source, or no number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let about = text.lines().find_map(|line| line.strip_prefix('#')).unwrap_or_default().trim();
        let mut profile =
            Self { about: about.into(), costs: Costs::default(), sources: vec![String::new(); FIELDS.len()] };
        for (number, line) in text.lines().enumerate() {
            if !line.trim().is_empty() && !line.starts_with('#') {
                profile.read_line(line).map_err(|wrong| format!("line {}: {wrong}", number + 1))?;
            }
        }
        if let Some(missing) = profile.sources.iter().position(String::is_empty) {
            let Field { name, unit, about, .. } = &FIELDS[missing];
            return Err(format!("{name} is missing ({}): {about}", unit.name()));
        }
        let Costs { cluster_cpus, node_cpus, pause, .. } = profile.costs;
        if pause == 0 {
            return Err("pause is 0: a wait loop would take no time".into());
        }
        if node_cpus % cluster_cpus != 0 {
            return Err(format!("cpus.node {node_cpus} is no multiple of cpus.cluster {cluster_cpus}"));
        }
        Ok(profile)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let (name, value, unit) = (words.next(), words.next(), words.next());
        let source = words.collect::<Vec<_>>().join(" ");
        let name = name.unwrap_or_default();
        let at = FIELDS.iter().position(|field| field.name == name);
        let at = at.ok_or_else(|| format!("no number is called {name}"))?;
        let Field { unit: wanted, of, .. } = &FIELDS[at];
        if unit != Some(wanted.name()) {
            return Err(format!("{name} is in {}", wanted.name()));
        }
        if !self.sources[at].is_empty() {
            return Err(format!("{name} is there twice"));
        }
        if source.is_empty() {
            return Err(format!("{name} has no source: write where it is from, or `guess: ` and why"));
        }
        let value = value.unwrap_or_default();
        *of(&mut self.costs) =
            wanted.read(value).ok_or_else(|| format!("{name}: {value} is no such number"))?;
        self.sources[at] = source;
        Ok(())
    }

    /// Name, value, unit and source of every number.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, String, &'static str, &str)> {
        FIELDS.iter().zip(&self.sources).map(|(Field { name, unit, get, .. }, source)| {
            (*name, unit.show(*get(&self.costs)), unit.name(), source.as_str())
        })
    }

    /// The names of the numbers that are guesses.
    pub fn guesses(&self) -> impl Iterator<Item = &'static str> {
        let is_guess = |source: &String| source.starts_with("guess");
        FIELDS
            .iter()
            .zip(&self.sources)
            .filter(move |(_, source)| is_guess(source))
            .map(|(field, _)| field.name)
    }
}

impl fmt::Display for Profile {
    /// As [`Profile::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}\n", self.about)?;
        self.entries().try_for_each(|(name, value, unit, source)| {
            writeln!(f, "{name:<16} {value:>6} {unit:<5}  {source}")
        })
    }
}

impl Costs {
    /// A number by its name in files.
    pub fn number(&mut self, name: &str) -> Option<&mut u64> {
        let field = FIELDS.iter().find(|field| field.name == name)?;
        Some((field.of)(self))
    }

    /// The same with everything that CPUs do to each other, lines, memory, interrupts and sleep, at
    /// `times.0 / times.1` of its cost.
    #[must_use]
    pub fn with_communication(mut self, times: (u64, u64)) -> Self {
        for field in FIELDS.iter().filter(|field| field.is_communication()) {
            let cost = (field.of)(&mut self);
            *cost = *cost * times.0 / times.1;
        }
        self
    }
}

impl Field {
    fn is_communication(&self) -> bool {
        let groups = ["line.", "memory.", "ipi.", "sleep", "wake", "page.bandwidth"];
        groups.iter().any(|group| self.name.starts_with(group))
    }
}

#[cfg(test)]
#[path = "tests/profile.rs"]
mod tests;
