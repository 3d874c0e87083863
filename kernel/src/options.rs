//! The command line: the kernel's own words, then ` -- `, then the program's.
//!
//! ```text
//!   path=locked count -- /program first second
//!   '-- the kernel's --'  '-- its argv ------'
//! ```

/// What the kernel was asked to do.
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
    /// The first word that means nothing.
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
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn words_before_the_dashes_are_the_kernels_and_those_after_the_programs() {
        let options = Options::parse("path=locked start=whole count -- /bin/p a -- b").unwrap();
        assert!(options.locked && options.whole && options.count && options.selftest.is_none());
        assert_eq!(options.argv().collect::<Vec<_>>(), ["/bin/p", "a", "--", "b"]);
        assert_eq!(Options::parse("-- p").unwrap().argv().count(), 1);
    }

    #[test]
    fn nothing_is_a_command_line_too() {
        assert_eq!(Options::parse(""), Ok(Options::default()));
        assert_eq!(Options::parse("count --").unwrap().program, "");
    }

    #[test]
    fn a_word_that_means_nothing_is_named() {
        assert_eq!(Options::parse("count path=fast"), Err("path=fast"));
        assert_eq!(Options::parse("selftest="), Err("selftest="));
        assert_eq!(Options::parse("quick"), Err("quick"));
    }
}
