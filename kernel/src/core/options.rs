//! The command line: the kernel's own words, then ` -- `, then the program's.
//!
//! ```text
//!   path=locked count -- /program first second
//!   '-- the kernel's --'  '-- its argv ------'
//! ```

use interleaf::space::Path;
use interleaf::vma::{HugePolicy, ZeroPagePolicy};

/// How the thread that collapses base pages in the background goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Pages that a pass looks at, at most: whole huge pages, one at least.
    pub pages: u32,
    /// Milliseconds from one pass to the next.
    pub sleep_ms: u32,
}

/// What Linux begins with.
impl Default for Scan {
    fn default() -> Self {
        Self { pages: 4096, sleep_ms: 10_000 }
    }
}

/// The kernel's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options<'a> {
    /// `selftest=NAME`.
    pub selftest: Option<&'a str>,
    /// `path=speculative|vma-lock|locked`: which way faults go.
    pub path: Path,
    /// `start=whole`: all frame records are written before the first frame is handed out.
    pub whole: bool,
    /// `huge=never|madvise|always`: when private memory gets huge pages.
    pub huge: HugePolicy,
    /// `zero_page=huge|virtual|small|none`: what a load of untouched memory finds where that may have huge
    /// pages.
    pub zero_page: ZeroPagePolicy,
    /// `hugepages=N`: huge pages of 2 MiB that are set aside for the hugetlb pool, as Linux's word says it.
    pub huge_pool: u64,
    /// `pages_to_scan=N` and `scan_sleep_millisecs=N`, as Linux's files of khugepaged have them.
    pub scan: Scan,
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
                Some(("path", name)) => {
                    options.path = Path::ALL.into_iter().find(|path| path.name() == name).ok_or(word)?;
                }
                Some(("start", "whole")) => options.whole = true,
                Some(("start", "deferred")) => options.whole = false,
                Some(("huge", "never")) => options.huge = HugePolicy::Never,
                Some(("huge", "madvise")) => options.huge = HugePolicy::Madvise,
                Some(("huge", "always")) => options.huge = HugePolicy::Always,
                Some(("zero_page", "huge")) => options.zero_page = ZeroPagePolicy::Huge,
                Some(("zero_page", "virtual")) => options.zero_page = ZeroPagePolicy::Virtual,
                Some(("zero_page", "small")) => options.zero_page = ZeroPagePolicy::Small,
                Some(("zero_page", "none")) => options.zero_page = ZeroPagePolicy::None,
                Some(("hugepages", pages)) => options.huge_pool = pages.parse().map_err(|_| word)?,
                Some(("pages_to_scan", pages)) => options.scan.pages = pages.parse().map_err(|_| word)?,
                Some(("scan_sleep_millisecs", ms)) => {
                    options.scan.sleep_ms = ms.parse().map_err(|_| word)?;
                }
                None if word == "count" => options.count = true,
                _ => return Err(word),
            }
        }
        Ok(options)
    }

    /// The program's arguments, its name first.
    pub fn argv(&self) -> impl Iterator<Item = Argument<'a>> + Clone {
        self.program.split_ascii_whitespace().map(Argument)
    }
}

/// An argument of the program, as the command line has it: a byte that is no visible ASCII is `%` and two
/// hexadecimal digits; `%` alone is an empty argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a>(pub(super) &'a str);

impl Argument<'_> {
    /// Its bytes, the last one first, as they are pushed on a stack. A `%` that is followed by no two digits
    /// stands for itself.
    pub fn bytes_backwards(&self) -> impl Iterator<Item = u8> {
        let mut rest = if self.0 == "%" { &[] } else { self.0.as_bytes() };
        core::iter::from_fn(move || {
            let (byte, left) = match rest {
                [left @ .., b'%', high, low] if let Some(byte) = hexadecimal(*high, *low) => (byte, left),
                [left @ .., byte] => (*byte, left),
                [] => return None,
            };
            rest = left;
            Some(byte)
        })
    }
}

fn hexadecimal(high: u8, low: u8) -> Option<u8> {
    let digit = |byte| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

#[cfg(test)]
#[path = "tests/options.rs"]
mod tests;
