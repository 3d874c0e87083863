//! The command line: the kernel's own words, then ` -- `, then the program's.
//!
//! ```text
//!   path=locked count -- /program first second
//!   '-- the kernel's --'  '-- its argv ------'
//! ```

/// The kernel's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options<'a> {
    /// `selftest=NAME`.
    pub selftest: Option<&'a str>,
    /// `path=locked`: faults always share the space's lock.
    pub locked: bool,
    /// `start=whole`: all frame records are written before the first frame is handed out.
    pub whole: bool,
    /// `count`: no timer, so that guest instructions are the program's and the kernel's alone.
    pub count: bool,
    /// The words after `--`.
    pub program: &'a str,
}

impl<'a> Options<'a> {
    /// Reads a command line.
    ///
    /// # Errors
    /// The first unknown word.
    pub fn parse(line: &'a str) -> Result<Self, &'a str> {
        let (own, program) = match line.split_once("-- ") {
            Some((own, program)) if own.is_empty() || own.ends_with(' ') => (own, program),
            _ => (line.strip_suffix("--").unwrap_or(line), ""),
        };
        let mut options = Options { program: program.trim(), ..Options::default() };
        for word in own.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("selftest", name)) if !name.is_empty() => options.selftest = Some(name),
                Some(("path", "locked")) => options.locked = true,
                Some(("path", "speculative")) => options.locked = false,
                Some(("start", "whole")) => options.whole = true,
                Some(("start", "deferred")) => options.whole = false,
                None if word == "count" => options.count = true,
                _ => return Err(word),
            }
        }
        Ok(options)
    }

    /// The program's arguments, its name first.
    pub fn argv(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.program.split_ascii_whitespace()
    }
}

#[cfg(test)]
#[path = "tests/options.rs"]
mod tests;
