//! Just enough of Rust's lexical grammar: names and punctuation with their lines; comments, strings,
//! characters and numbers are passed over.

/// A name or a punctuation character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or a keyword.
    Name(String),
    /// One character of punctuation.
    Mark(char),
}

/// A token and the line it stands in, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub line: usize,
}

impl Token {
    /// The name, if it is one.
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Name(name) => Some(name),
            Kind::Mark(_) => None,
        }
    }

    /// Whether it is this punctuation character.
    pub fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }
}

/// The tokens of a source file.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut scanner = Scanner { rest: source, line: 1 };
    let mut tokens = Vec::new();
    while let Some(first) = scanner.rest.chars().next() {
        let line = scanner.line;
        if let Some(kind) = scanner.next(first) {
            tokens.push(Token { kind, line });
        }
    }
    tokens
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl Scanner<'_> {
    /// Consumes one token, or one comment, string or the like.
    fn next(&mut self, first: char) -> Option<Kind> {
        if self.rest.starts_with("//") {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.take(block_comment(self.rest));
        } else if let Some(length) = string(self.rest) {
            self.take(length);
        } else if first == '\'' {
            self.take(quote(self.rest));
        } else if first.is_ascii_digit() {
            self.take(length_of_word(self.rest));
        } else if first.is_alphabetic() || first == '_' {
            let raw = if self.rest.starts_with("r#") { 2 } else { 0 };
            self.take(raw);
            let length = length_of_word(self.rest);
            return Some(Kind::Name(self.take(length)));
        } else {
            self.take(first.len_utf8());
            return (!first.is_whitespace()).then_some(Kind::Mark(first));
        }
        None
    }

    fn take(&mut self, length: usize) -> String {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken.to_string()
    }
}

fn length_of_word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The length of a block comment; they nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match rest {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of the string literal that `text` begins with, if it does.
fn string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|p| {
        let rest = text.strip_prefix(p).unwrap_or("\0");
        rest.starts_with('"')
            || (p.ends_with('r') && rest.trim_start_matches('#').starts_with('"') && rest != text)
    })?;
    let body = &text[prefix.len()..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    let open = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        return Some(text[open..].find(&close).map_or(text.len(), |at| open + at + close.len()));
    }
    Some(open + escaped_until(&text[open..], b'"'))
}

/// The length up to and with the first `end` that no backslash precedes.
fn escaped_until(text: &str, end: u8) -> usize {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == end {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a character literal, or of a lifetime's quote alone.
fn quote(text: &str) -> usize {
    let mut characters = text[1..].chars();
    match (characters.next(), characters.next()) {
        (Some('\\'), _) => 1 + escaped_until(&text[1..], b'\''),
        (Some(character), Some('\'')) => 2 + character.len_utf8(),
        _ => 1,
    }
}

#[cfg(test)]
#[path = "tests/tokens.rs"]
mod tests;
