//! What the library's types offer: the methods of each, and the types that can write an entry.
//!
//! Three rules come with it: types of a [list](LIMITS) have no more methods than they may, no free function
//! takes one in their place, and a type that stores to the words of a table is in the list of those.

use super::Violation;
use super::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The most methods that a type may have: in all of its `impl` blocks, public or not.
struct Limit {
    name: &'static str,
    /// Where its methods are.
    files: &'static str,
    most: usize,
}

/// Types that many parts of the library would add their methods to.
const LIMITS: &[Limit] = &[
    Limit { name: "AddressSpace", files: "vm/src/space", most: 60 },
    Limit { name: "Memory", files: "vm/src/frame", most: 100 },
];

/// The types that can write an entry of a table. One more is one more place where an entry may change.
const WRITERS: &[&str] = &["EntryRef", "LockedTable", "Table", "UnlinkedTable"];

/// Where the words of tables are written, and the calls of a word that write it.
const TABLE: &str = "vm/src/table/";
const WRITES: &[&str] =
    &["store", "swap", "update", "compare_exchange", "compare_exchange_weak", "fetch_and", "fetch_or"];

/// Types that the command lists: those with the most methods.
const LISTED: usize = 24;

/// A function of one file.
struct Function<'a> {
    name: &'a str,
    /// The type of its `impl` block; `None` for a free function.
    of: Option<&'a str>,
    is_public: bool,
    line: usize,
    /// Its tokens, from the name to the end of its body.
    tokens: &'a [Token],
}

/// Methods of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    all: usize,
    public: usize,
}

/// The types of the library, and the violations of the rules.
#[derive(Default)]
struct Surface {
    types: BTreeMap<String, Count>,
    writers: BTreeSet<String>,
    violations: Vec<Violation>,
}

/// The violations of the rules.
pub fn check(root: &Path) -> Vec<Violation> {
    let mut surface = Surface::of(root);
    LIMITS.iter().for_each(|limit| surface.limit(limit));
    surface.violations
}

/// Prints the types with the most methods, and those that can write an entry.
///
/// # Errors
/// Never: what breaks a rule is told by `layers`.
pub fn print(root: &Path) -> Result<(), String> {
    let surface = Surface::of(root);
    let mut types: Vec<(&String, &Count)> = surface.types.iter().collect();
    types.sort_by_key(|(name, count)| (std::cmp::Reverse(count.all), *name));
    println!("{:<24} {:>7} {:>7}", "type", "methods", "public");
    for (name, count) in types.iter().take(LISTED) {
        println!("{name:<24} {:>7} {:>7}", count.all, count.public);
    }
    let all = types.iter().map(|(_, count)| count.all).sum::<usize>();
    let public = types.iter().map(|(_, count)| count.public).sum::<usize>();
    println!("{:<24} {all:>7} {public:>7}", format!("{} types", types.len()));
    println!("write an entry: {}", surface.writers.into_iter().collect::<Vec<_>>().join(", "));
    Ok(())
}

/// The public methods of a type of the library.
pub fn public_methods(root: &Path, of: &str) -> BTreeSet<String> {
    let mut methods = BTreeSet::new();
    for (_, tokens) in library(root) {
        let is_its = |function: &Function<'_>| function.is_public && function.of == Some(of);
        methods.extend(functions(&tokens).into_iter().filter(is_its).map(|method| method.name.to_string()));
    }
    methods
}

/// The files of the library below `root`, without its tests.
fn library(root: &Path) -> impl Iterator<Item = (String, Vec<Token>)> {
    let named = crate::sources(&root.join("vm/src"))
        .into_iter()
        .map(move |path| (path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned(), path));
    let files = named.filter(|(file, _)| !crate::is_for_tests(file));
    files.map(|(file, path)| (file, tokens(&fs::read_to_string(path).unwrap_or_default())))
}

impl Surface {
    fn of(root: &Path) -> Self {
        let mut surface = Self::default();
        for (file, tokens) in library(root) {
            surface.add(&file, &tokens);
        }
        surface
    }

    fn add(&mut self, file: &str, tokens: &[Token]) {
        for function in functions(tokens) {
            if let Some(name) = function.of {
                let count = self.types.entry(name.to_string()).or_default();
                count.all += 1;
                count.public += usize::from(function.is_public);
            } else if let Some(limit) = LIMITS.iter().find(|limit| takes(function.tokens, limit.name)) {
                let what = format!("{} is a free function that takes `&{}`", function.name, limit.name);
                self.violations.push(Violation { file: file.to_string(), line: function.line, what });
            }
            if file.starts_with(TABLE) && function.tokens.windows(3).any(writes) {
                let writer = function.of.unwrap_or(function.name);
                self.writers.insert(writer.to_string());
                if !WRITERS.contains(&writer) {
                    let what = format!("{writer} writes an entry, and is not in the list of types that do");
                    self.violations.push(Violation { file: file.to_string(), line: function.line, what });
                }
            }
        }
    }

    /// Refuses a type that has more methods.
    fn limit(&mut self, &Limit { name, files, most }: &Limit) {
        let all = self.types.get(name).map_or(0, |count| count.all);
        if all > most {
            let what = format!("{name} has {all} methods, and may have {most}");
            self.violations.push(Violation { file: files.to_string(), line: 0, what });
        }
    }
}

/// The functions of a file: the free ones, and those of its `impl` blocks.
fn functions(tokens: &[Token]) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins = at == 0
            || tokens[at - 1].name() == Some("unsafe")
            || ['}', ';', ']'].iter().any(|mark| tokens[at - 1].is(*mark));
        match tokens[at].name() {
            Some("impl") if begins => {
                let end = end_of_item(tokens, at);
                let body = at + header(&tokens[at..end]);
                in_block(&tokens[..end], body + 1, type_of(&tokens[at..body]), &mut found);
                at = end;
            }
            Some("fn") => {
                let end = end_of_item(tokens, at);
                found.extend(function(tokens, at, end, None));
                at = end;
            }
            // All else in braces: modules, traits, macros.
            _ if tokens[at].is('{') => at = end_of_item(tokens, at),
            _ => at += 1,
        }
    }
    found
}

/// Adds the functions of an `impl` block whose body begins at `at`.
fn in_block<'a>(tokens: &'a [Token], mut at: usize, of: Option<&'a str>, found: &mut Vec<Function<'a>>) {
    while at < tokens.len() {
        if tokens[at].name() == Some("fn") {
            let end = end_of_item(tokens, at);
            found.extend(function(tokens, at, end, of));
            at = end;
        } else {
            at += 1;
        }
    }
}

fn function<'a>(tokens: &'a [Token], at: usize, end: usize, of: Option<&'a str>) -> Option<Function<'a>> {
    let name = tokens.get(at + 1)?.name()?;
    let is_modifier = |token: &Token| matches!(token.name(), Some("const" | "unsafe" | "async" | "extern"));
    let before = tokens[..at].iter().rev().find(|token| !is_modifier(token));
    let is_public = before.is_some_and(|token| token.name() == Some("pub"));
    Some(Function { name, of, is_public, line: tokens[at].line, tokens: &tokens[at + 1..end] })
}

/// One past the item that begins at `at`: past its block, or its semicolon.
fn end_of_item(tokens: &[Token], at: usize) -> usize {
    let (mut braces, mut brackets) = (0, 0);
    for (here, token) in tokens.iter().enumerate().skip(at) {
        if token.is('(') || token.is('[') {
            brackets += 1;
        } else if token.is(')') || token.is(']') {
            brackets -= 1;
        } else if token.is('{') {
            braces += 1;
        } else if token.is('}') {
            braces -= 1;
            if braces <= 0 && brackets == 0 && !is_argument(tokens, here) {
                return here + 1;
            }
        } else if token.is(';') && braces == 0 && brackets == 0 {
            return here + 1;
        }
    }
    tokens.len()
}

/// Whether the brace ends a constant argument: `Lock<{ RANK }>`.
fn is_argument(tokens: &[Token], here: usize) -> bool {
    tokens.get(here + 1).is_some_and(|next| next.is('>') || next.is(','))
}

/// Where the body of an `impl` block begins.
fn header(block: &[Token]) -> usize {
    let opens = |at: &usize| block[*at].is('{') && !block[at - 1].is('<') && !block[at - 1].is(',');
    (1..block.len()).find(opens).unwrap_or(block.len())
}

/// The type of an `impl` block: of its header, the last name of the path after `for`, or of the only one.
fn type_of(header: &[Token]) -> Option<&str> {
    let mut depth = 0;
    let mut name = None;
    for (at, token) in header.iter().enumerate().skip(1) {
        if token.is('<') {
            depth += 1;
        } else if token.is('>') && !header[at - 1].is('-') {
            depth -= 1;
        } else if depth == 0 {
            match token.name() {
                Some("where") => break,
                Some("for" | "dyn" | "mut") => {}
                Some(other) => name = Some(other),
                None => {}
            }
        }
    }
    name
}

/// Whether the parameters, which begin after the name and its generics, have a reference to the type: a `&`,
/// then perhaps a lifetime and `mut`, then the type.
fn takes(function: &[Token], name: &str) -> bool {
    let end = function.iter().position(|token| token.is('{') || token.is(';')).unwrap_or(function.len());
    let names_after = |at: usize| function[at + 1..end].iter().map_while(Token::name);
    (0..end).any(|at| function[at].is('&') && names_after(at).any(|found| found == name))
}

/// Whether the tokens begin with a call that writes a word.
fn writes(tokens: &[Token]) -> bool {
    let is_write = tokens[1].name().is_some_and(|name| WRITES.contains(&name));
    tokens[0].is('.') && is_write && tokens[2].is('(')
}

#[cfg(test)]
#[path = "tests/surface.rs"]
mod tests;
