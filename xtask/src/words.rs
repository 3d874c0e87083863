//! Words. Of the names of types none that was replaced by the field's word is declared again, and in the
//! library one name stands for one type. Comments and documents say the helper, the caller, the writer, and
//! not `who` or `nobody`: a page is not mapped by a person.

use crate::layers::tokens::{Token, tokens};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Names that were replaced; GLOSSARY.md has their replacements.
const REPLACED: &[&str] = &[
    "Aim",
    "Answer",
    "Ask",
    "Beyond",
    "Bias",
    "Biased",
    "Board",
    "Carried",
    "Crew",
    "Crowd",
    "Desk",
    "Detention",
    "Ended",
    "Enlisted",
    "Exhibit",
    "Ground",
    "Head",
    "Installed",
    "Landing",
    "Mine",
    "Nearness",
    "Own",
    "Owned",
    "Permanent",
    "Pinned",
    "Post",
    "Recent",
    "Round",
    "ShareLock",
    "Spot",
    "Stop",
    "Stretch",
    "Tally",
    "Tray",
    "Whence",
];

/// Words for persons. In backticks they are names.
const PERSONS: &[&str] = &["who", "whom", "whoever", "nobody", "somebody", "anybody", "everybody"];

/// Where comments and documents may say so: records of what was decided and measured.
const EXEMPT: &[&str] = &["CHANGELOG.md", "docs/decisions/", "docs/results/"];

/// A type and where it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Declared {
    name: String,
    place: String,
}

/// Prints each refused declaration, and fails if there is one.
pub fn check_and_print(root: &Path) -> Result<(), String> {
    let mut declared = Vec::new();
    for path in
        ["vm", "linux-abi", "lab", "kernel"].iter().flat_map(|shelf| crate::sources(&root.join(shelf)))
    {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        declared.extend(declarations(&file, &tokens(&text)));
    }
    let mut found = replaced(&declared);
    found.extend(ambiguous(&declared));
    found.iter().for_each(|line| println!("{line}"));
    println!("{} types are declared, {} of them under a name that is taken", declared.len(), found.len());
    let prose = crate::prose(root).filter(|(file, _)| !EXEMPT.iter().any(|part| file.starts_with(part)));
    let persons: Vec<String> = prose.flat_map(|(file, text)| persons(&file, &text)).collect();
    persons.iter().for_each(|line| println!("{line}"));
    println!("{} comments and lines of documents name persons", persons.len());
    let (names, lines) = (found.len(), persons.len());
    if names + lines == 0 {
        Ok(())
    } else {
        Err(format!("{names} names of types and {lines} lines must change"))
    }
}

/// The lines of prose that name a person; what is fenced is a drawing, or a program's output.
fn persons(file: &str, text: &str) -> Vec<String> {
    let mut is_fenced = false;
    let of_line = |(at, line): (usize, &str)| {
        is_fenced ^= line.contains("```");
        let outside_of_names = line.split('`').step_by(2).filter(|_| !is_fenced);
        let mut words = outside_of_names.flat_map(|part| part.split(|c: char| !c.is_alphabetic()));
        let word = words.find(|word| PERSONS.contains(&word.to_lowercase().as_str()))?;
        Some(format!("{file}:{}: {word}", at + 1))
    };
    text.lines().enumerate().filter_map(of_line).collect()
}

/// The types that a file declares; those inside of functions too.
fn declarations(file: &str, tokens: &[Token]) -> Vec<Declared> {
    let declares = |token: &Token| matches!(token.name(), Some("struct" | "enum" | "trait" | "union"));
    let pairs = tokens.windows(2).filter(|pair| declares(&pair[0]));
    let named = pairs.filter_map(|pair| Some((pair[1].name()?, pair[1].line)));
    named.map(|(name, line)| Declared { name: name.to_string(), place: format!("{file}:{line}") }).collect()
}

/// Declarations under a replaced name.
fn replaced(declared: &[Declared]) -> Vec<String> {
    let are_replaced = declared.iter().filter(|one| REPLACED.contains(&one.name.as_str()));
    are_replaced.map(|one| format!("{}: {} has another name now", one.place, one.name)).collect()
}

/// Names that the library declares twice, its tests and examples excepted.
fn ambiguous(declared: &[Declared]) -> Vec<String> {
    let is_library = |place: &str| {
        let file = place.split(':').next().unwrap_or(place);
        file.starts_with("vm/src/") && !crate::is_for_tests(file)
    };
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in declared.iter().filter(|one| is_library(&one.place)) {
        places.entry(&one.name).or_default().push(&one.place);
    }
    let twice = places.iter().filter(|(_, places)| places.len() > 1);
    twice.map(|(name, places)| format!("{}: several types are named {name}", places.join(" "))).collect()
}

#[cfg(test)]
#[path = "tests/words.rs"]
mod tests;
