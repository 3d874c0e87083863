//! The rules, one function each, over the tokens of one file.

use super::Violation;
use super::tokens::Token;

/// The floors of the library and their heights. Equal height: strangers.
const FLOORS: &[(&str, u32)] = &[
    ("units", 0),
    ("machine", 1),
    ("sync", 2),
    ("work", 3),
    ("frame", 4),
    ("table", 5),
    ("tlb", 5),
    ("vma", 5),
    ("file", 5),
    ("space", 6),
];

/// Where `unsafe` may stand.
const UNSAFE_PLACES: &[&str] = &[
    "vm/src/sync",
    "vm/src/work",
    "vm/src/frame",
    "vm/src/table",
    TEST_MACHINE,
    "vm/examples",
    "lab/src/os",
    "lab/src/machine/soft",
    "kernel/src/arch",
    "kernel/plugin/src/qemu",
    "kernel/programs/src/sys",
];

/// The machine of the library's own tests: it is compiled for them alone and stands beside the floors, not on
/// one.
const TEST_MACHINE: &str = "vm/src/machine/testing";

/// Where only the contract of something unsafe may stand: `unsafe trait`, `unsafe fn`.
const UNSAFE_CONTRACTS: &[&str] = &["vm/src/machine"];

/// What breaks a rule in one source file.
pub fn source(file: &str, tokens: &[Token]) -> Vec<Violation> {
    let source = Source { file, tokens };
    let mut found = source.shelves();
    found.extend(source.unsafe_places());
    if let Some(floor) = floor_of(file) {
        match height(floor) {
            None => found.push(source.violation(0, format!("{floor} is no floor of the library"))),
            Some(height) => {
                found.extend(source.crate_paths(floor, height));
                found.extend(source.super_paths());
                found.extend(source.doors(height));
            }
        }
    }
    found
}

/// What breaks a rule in a shelf's Cargo.toml.
pub fn manifest(file: &str, text: &str) -> Vec<Violation> {
    let shelf = file.split('/').next().unwrap_or(file);
    let forbidden: &[&str] = match shelf {
        "vm" => &["interleaf-lab", "interleaf-kernel"],
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

fn height(floor: &str) -> Option<u32> {
    FLOORS.iter().find(|f| f.0 == floor).map(|f| f.1)
}

/// The floor a file of the library belongs to; none for `lib.rs`, which holds them all, for the macro of
/// mutation points, which all may use, nor for the test machine.
fn floor_of(file: &str) -> Option<&str> {
    let inside = file.strip_prefix("vm/src/").filter(|_| !is_within(file, &[TEST_MACHINE]))?;
    let first = inside.split('/').next()?;
    let floor = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "mutant"].contains(&floor)).then_some(floor)
}

/// How many modules deep a file of the library lies: 1 for a floor itself.
fn depth_of(file: &str) -> usize {
    let inside = file.strip_prefix("vm/src/").unwrap_or(file);
    let parts = inside.split('/').count();
    if inside.ends_with("/mod.rs") { parts - 1 } else { parts }
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

    /// The shelves: nobody names a shelf that he does not stand on.
    fn shelves(&self) -> Vec<Violation> {
        let (shelf, forbidden): (_, &[(&str, &str)]) = match self.file.split('/').next() {
            Some("vm") => ("library", &[("interleaf_lab", "lab"), ("interleaf_kernel", "kernel")]),
            Some("lab") => ("lab", &[("interleaf_kernel", "kernel")]),
            Some("kernel") => ("kernel", &[("interleaf_lab", "lab")]),
            _ => return Vec::new(),
        };
        let other = |token: &Token| forbidden.iter().find(|f| token.name() == Some(f.0)).map(|f| f.1);
        let named = self.tokens.iter().filter_map(|t| Some((t.line, other(t)?)));
        named.map(|(line, other)| self.violation(line, format!("the {shelf} names the {other}"))).collect()
    }

    fn unsafe_places(&self) -> Vec<Violation> {
        if is_within(self.file, UNSAFE_PLACES) {
            return Vec::new();
        }
        let contracts = is_within(self.file, UNSAFE_CONTRACTS);
        let allowed =
            |at: usize| contracts && (self.reads(at + 1, &["trait"]) || self.reads(at + 1, &["fn"]));
        let stands = (0..self.tokens.len()).filter(|&at| self.reads(at, &["unsafe"]) && !allowed(at));
        stands.map(|at| self.violation(self.tokens[at].line, "unsafe stands outside of its places")).collect()
    }

    /// Floors named as `crate::<floor>`, alone or in braces.
    fn crate_paths(&self, floor: &str, height_here: u32) -> Vec<Violation> {
        let mut found = Vec::new();
        for at in (0..self.tokens.len()).filter(|&at| self.reads(at, &["crate", "::"])) {
            for (name, line) in self.named_after(at + 3) {
                let what = match height(name) {
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
    fn super_paths(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let inline = self.inline_depths();
        let begins =
            |at: &usize| self.reads(*at, &["super"]) && !(*at >= 3 && self.reads(at - 3, &["super", "::"]));
        for at in (0..self.tokens.len()).filter(begins) {
            let climbs = (0..).take_while(|k| self.reads(at + 3 * k, &["super"])).count();
            if climbs >= depth_of(self.file) + inline[at] {
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
    fn doors(&self, height_here: u32) -> Vec<Violation> {
        let is_test_file = self.file.ends_with("tests.rs") || self.file.ends_with("testing.rs");
        if Some(height_here) <= height("sync") || is_test_file {
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
mod tests {
    use super::*;
    use crate::layers::tokens::tokens;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        source(file, &tokens(text)).iter().map(|v| v.line).collect()
    }

    #[test]
    fn a_floor_may_name_itself_and_what_lies_below() {
        let text = "use crate::{units::{Pfn, Vpn}, machine::Machine, frame::Zone};\nuse crate::sync::Spin;";
        assert!(lines("vm/src/frame/zone.rs", text).is_empty());
    }

    #[test]
    fn names_inside_of_a_lower_floors_braces_are_not_floors() {
        assert!(lines("vm/src/frame/zone.rs", "use crate::units::{space, table};").is_empty());
    }

    #[test]
    fn the_second_path_in_braces_is_seen() {
        assert_eq!(lines("vm/src/frame/zone.rs", "use crate::{\n units,\n space::Fault};"), [3]);
    }

    #[test]
    fn inline_modules_are_as_deep_as_they_look() {
        let text = "mod tests {\n use super::*;\n use super::super::frame;\n}";
        assert_eq!(lines("vm/src/frame.rs", text), [3]);
        assert!(lines("vm/src/frame/buddy.rs", text).is_empty());
    }

    #[test]
    fn a_macro_of_the_crate_is_no_floor() {
        assert!(lines("vm/src/space/mod.rs", "crate::count!(pgfault);").is_empty());
    }

    #[test]
    fn the_library_root_holds_every_floor() {
        assert!(lines("vm/src/lib.rs", "pub use crate::space::AddressSpace;").is_empty());
    }
}
