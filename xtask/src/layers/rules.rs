//! The rules, one function each, over the tokens of one file.

use super::Violation;
use super::floors::{self, Shelf};
use super::tokens::Token;

/// Where `unsafe` may stand.
const UNSAFE_PLACES: &[&str] = &[
    "vm/src/sync",
    "vm/src/index",
    "vm/src/work",
    "vm/src/frame",
    "vm/src/table",
    "vm/src/machine/conformance",
    "vm/src/machine/contract",
    "vm/src/machine/testing",
    "vm/src/machine/word_copy",
    "vm/examples",
    "lab/src/os",
    "lab/src/machine/soft",
    "lab/src/machine/host/cpu",
    "lab/src/machine/baton/cpu",
    "lab/src/machine/sim/cpu",
    "lab/src/machine/sim/tests",
    "lab/src/machine/watch/cpu",
    "lab/check/tests/running/recount",
    "lab/tests/same_task",
    "lab/check/tests/running/secrets",
    "kernel/src/arch",
    "kernel/plugin/src/qemu",
    "kernel/programs/src/sys",
];

/// Where only unsafe contracts may stand: `unsafe trait`, `unsafe fn`.
const UNSAFE_CONTRACTS: &[&str] = &["vm/src/machine"];

/// The violations in one source file.
pub fn source(file: &str, tokens: &[Token]) -> Vec<Violation> {
    let source = Source { file, tokens };
    let mut found = source.shelves();
    found.extend(source.unsafe_places());
    let Some((shelf, floor)) = floors::of(file) else { return found };
    let Some(height) = shelf.height(floor) else {
        found.push(source.violation(0, format!("{floor} is no floor of the {}", shelf.name)));
        return found;
    };
    found.extend(source.crate_paths(shelf, floor, height));
    found.extend(source.super_paths(shelf));
    found.extend(source.doors(shelf, height));
    found.extend(source.forbidden_unsafe(shelf, floor));
    found.extend(source.kinds());
    found
}

/// Types whose variants are kinds of memory, and the file that may name one. A test may.
const KINDS: &[(&str, &str)] =
    &[("LeafClass", "vm/src/table/class.rs"), ("Source", "vm/src/space/fault/source.rs")];

/// The violations in a shelf's Cargo.toml.
pub fn manifest(file: &str, text: &str) -> Vec<Violation> {
    let shelf = file.split('/').next().unwrap_or(file);
    let forbidden: &[&str] = match shelf {
        "vm" => &["interleaf-lab", "interleaf-kernel", "interleaf-linux-abi"],
        "linux-abi" => &["interleaf-lab", "interleaf-kernel"],
        "lab" => &["interleaf-kernel"],
        _ => &["interleaf-lab"],
    };
    let depends = |line: &str| {
        let key = line.split(['=', '.']).next().unwrap_or(line).trim();
        forbidden.iter().find(|f| **f == key)
    };
    let violation = |(index, other): (usize, &&str)| Violation {
        file: file.to_string(),
        line: index + 1,
        what: format!("{shelf} depends on {other}"),
    };
    text.lines().enumerate().filter_map(|(i, line)| Some((i, depends(line)?))).map(violation).collect()
}

/// Whether `file` is one of `places`, or lies in it.
fn is_within(file: &str, places: &[&str]) -> bool {
    places.iter().any(|place| file.starts_with(&format!("{place}/")) || file == format!("{place}.rs"))
}

/// Whether a floor has no place for `unsafe`: its first file forbids it, and the compiler does the rest.
fn forbids_unsafe(shelf: &Shelf, floor: &str) -> bool {
    let root = shelf.root_of(floor);
    let places = UNSAFE_PLACES.iter().chain(UNSAFE_CONTRACTS);
    !places.copied().any(|place| is_within(place, &[&root]) || place == root)
}

struct Source<'a> {
    file: &'a str,
    tokens: &'a [Token],
}

impl Source<'_> {
    fn violation(&self, line: usize, what: impl Into<String>) -> Violation {
        Violation { file: self.file.to_string(), line, what: what.into() }
    }

    /// Whether the tokens from `at` on are these: names, and `::` for two colons.
    fn reads(&self, at: usize, words: &[&str]) -> bool {
        let mut at = at;
        words.iter().all(|word| {
            let length = if *word == "::" { 2 } else { 1 };
            let here = self.tokens.get(at..at + length);
            at += length;
            here.is_some_and(|t| match *word {
                "::" => t[0].is(':') && t[1].is(':'),
                name => t[0].name() == Some(name),
            })
        })
    }

    /// One place for each question: what an absent page gets, and what a present leaf decides. A file that
    /// matches on a kind of memory would be one more to change for the next kind. Anonymous memory is what
    /// the short way of a fault names.
    fn kinds(&self) -> Vec<Violation> {
        if !self.file.starts_with("vm/src/") || crate::is_for_tests(self.file) {
            return Vec::new();
        }
        let is_variant = |name: &str| {
            name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase) && name != "Anonymous"
        };
        let others = KINDS.iter().filter(|(_, place)| *place != self.file);
        let named = |kind: &'static str| {
            (0..self.tokens.len()).filter(move |&at| {
                let variant = self.tokens.get(at + 3).and_then(Token::name);
                self.reads(at, &[kind, "::"]) && variant.is_some_and(is_variant)
            })
        };
        let violation = |kind: &str, at: usize| {
            let what = format!("a variant of {kind} outside of its file: ask it for the rule");
            self.violation(self.tokens[at].line, what)
        };
        others.flat_map(|(kind, _)| named(kind).map(move |at| violation(kind, at))).collect()
    }

    /// The shelves: a crate names only crates that it depends on.
    fn shelves(&self) -> Vec<Violation> {
        let (shelf, forbidden): (_, &[(&str, &str)]) = match self.file.split('/').next() {
            Some("vm") => (
                "library",
                &[
                    ("interleaf_lab", "lab"),
                    ("interleaf_kernel", "kernel"),
                    ("interleaf_linux_abi", "Linux ABI"),
                ],
            ),
            Some("linux-abi") => ("Linux ABI", &[("interleaf_lab", "lab"), ("interleaf_kernel", "kernel")]),
            Some("lab") => ("lab", &[("interleaf_kernel", "kernel")]),
            Some("kernel") => ("kernel", &[("interleaf_lab", "lab")]),
            _ => return Vec::new(),
        };
        let other = |token: &Token| forbidden.iter().find(|f| token.name() == Some(f.0)).map(|f| f.1);
        let named = self.tokens.iter().filter_map(|t| Some((t.line, other(t)?)));
        named.map(|(line, other)| self.violation(line, format!("the {shelf} names the {other}"))).collect()
    }

    fn unsafe_places(&self) -> Vec<Violation> {
        let is_left_to_the_compiler =
            floors::of(self.file).is_some_and(|(shelf, floor)| forbids_unsafe(shelf, floor));
        if is_left_to_the_compiler || is_within(self.file, UNSAFE_PLACES) {
            return Vec::new();
        }
        let contracts = is_within(self.file, UNSAFE_CONTRACTS);
        let allowed =
            |at: usize| contracts && (self.reads(at + 1, &["trait"]) || self.reads(at + 1, &["fn"]));
        let stands = (0..self.tokens.len()).filter(|&at| self.reads(at, &["unsafe"]) && !allowed(at));
        stands.map(|at| self.violation(self.tokens[at].line, "unsafe stands outside of its places")).collect()
    }

    /// The file that holds a whole floor forbids `unsafe` there, unless the floor has a place for it.
    fn forbidden_unsafe(&self, shelf: &Shelf, floor: &str) -> Option<Violation> {
        if !forbids_unsafe(shelf, floor) || !shelf.holds_whole(self.file, floor) {
            return None;
        }
        let forbids = |at: usize| self.reads(at, &["forbid"]) && self.reads(at + 2, &["unsafe_code"]);
        let stands = (0..self.tokens.len()).any(forbids);
        (!stands).then(|| self.violation(0, format!("{floor} does not forbid unsafe code")))
    }

    /// Floors named as `crate::<floor>`, alone or in braces.
    fn crate_paths(&self, shelf: &Shelf, floor: &str, height_here: u32) -> Vec<Violation> {
        let mut found = Vec::new();
        for at in (0..self.tokens.len()).filter(|&at| self.reads(at, &["crate", "::"])) {
            for (name, line) in self.named_after(at + 3) {
                let what = match shelf.height(name) {
                    _ if name == floor => continue,
                    Some(other) if other < height_here => continue,
                    Some(other) if other == height_here => {
                        format!("{floor} names crate::{name}, its stranger")
                    }
                    Some(_) => format!("{floor} names crate::{name}, which is above it"),
                    None => format!("crate::{name} is no floor"),
                };
                found.push(self.violation(line, what));
            }
        }
        found
    }

    /// The names that follow a `crate::`: one, or the first of every path in its braces. A macro of the crate
    /// (`crate::name!`) belongs to no floor.
    fn named_after(&self, at: usize) -> Vec<(&str, usize)> {
        let name_at = |at: usize| {
            let token = self.tokens.get(at)?;
            let is_macro = self.tokens.get(at + 1).is_some_and(|t| t.is('!'));
            (!is_macro).then_some((token.name()?, token.line))
        };
        if !self.tokens.get(at).is_some_and(|t| t.is('{')) {
            return name_at(at).into_iter().collect();
        }
        let mut names = Vec::new();
        let mut depth = 0;
        for here in at..self.tokens.len() {
            let token = &self.tokens[here];
            let opens_a_path = depth == 1 && (self.tokens[here - 1].is('{') || self.tokens[here - 1].is(','));
            if token.is('{') {
                depth += 1;
            } else if token.is('}') {
                depth -= 1;
            } else if opens_a_path {
                names.extend(name_at(here));
            }
            if depth == 0 {
                break;
            }
        }
        names
    }

    /// `super::super::...` that climbs out of the floor.
    fn super_paths(&self, shelf: &Shelf) -> Vec<Violation> {
        let mut found = Vec::new();
        let inline = self.inline_depths();
        let begins =
            |at: &usize| self.reads(*at, &["super"]) && !(*at >= 3 && self.reads(at - 3, &["super", "::"]));
        for at in (0..self.tokens.len()).filter(begins) {
            let climbs = (0..).take_while(|k| self.reads(at + 3 * k, &["super"])).count();
            if climbs >= shelf.depth_of(self.file) + inline[at] {
                let what = "super leaves the floor: name the other as crate::<floor>";
                found.push(self.violation(self.tokens[at].line, what));
            }
        }
        found
    }

    /// In how many inline modules each token stands.
    fn inline_depths(&self) -> Vec<usize> {
        let mut braces: Vec<bool> = Vec::new();
        let mut depths = Vec::with_capacity(self.tokens.len());
        for (at, token) in self.tokens.iter().enumerate() {
            if token.is('{') {
                braces.push(at >= 2 && self.reads(at - 2, &["mod"]));
            } else if token.is('}') {
                braces.pop();
            }
            depths.push(braces.iter().filter(|is_module| **is_module).count());
        }
        depths
    }

    /// Above `sync`, atomics come from `sync`; tests, and the orderings that are only names, may come from
    /// core.
    fn doors(&self, shelf: &Shelf, height_here: u32) -> Vec<Violation> {
        let below_the_door = shelf.door.is_none_or(|door| Some(height_here) <= shelf.height(door));
        if below_the_door || crate::is_for_tests(self.file) {
            return Vec::new();
        }
        let inline = self.inline_depths();
        let stands = |at: &usize| {
            let path =
                ["core", "std"].iter().any(|root| self.reads(*at, &[root, "::", "sync", "::", "atomic"]));
            path && inline[*at] == 0 && !self.reads(at + 7, &["::", "Ordering"])
        };
        let found = (0..self.tokens.len()).filter(stands);
        found.map(|at| self.violation(self.tokens[at].line, "atomics come from crate::sync")).collect()
    }
}

#[cfg(test)]
#[path = "tests/rules.rs"]
mod tests;
