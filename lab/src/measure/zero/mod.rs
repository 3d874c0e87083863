//! What does memory cost that is only read?
//!
//! With huge pages and no huge zero page, reading untouched memory allocates it: 200 MB for a program that
//! had 400 kB, 2.5 times the memory for a benchmark of Fourier transforms (the seed: "Introduce huge zero
//! page", version 4). Its author weighed two ways to spare that: one page of 2 MiB of zeros, which competes
//! for cache with all else, and a shared table of one small page, which takes an entry of the TLB for each
//! page.
//!
//! | file | asks |
//! |---|---|
//! | `host` | what this machine takes for both, and Linux for its zero pages: real times |
//! | `caches` | what caches and TLB miss, by the kind of page: a model with a stated geometry |
//! | `library` | what memory, tables and faults it takes, in programs on our address space |
//! | `pattern` | how the seed's programs read |

mod caches;
mod host;
mod library;
mod pattern;
mod report;

pub use caches::{Geometry, Misses, misses_of};
pub use host::HostRow;
pub use library::{LibraryRow, Program, measure};
pub use pattern::Pattern;
pub use report::{ModelRow, Report};

use crate::error::Failure;
use crate::os::host_info::HostInfo;
use crate::show::Progress;
use serde::Serialize;

/// What a load of untouched memory finds, where huge pages are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ZeroPage {
    /// A page of 2 MiB of zeros.
    #[default]
    Huge,
    /// One table of small zero pages, shared by all entries.
    Virtual,
    /// Small zero pages, a table of them for each 2 MiB.
    Small,
    /// Memory of its own, zeroed.
    None,
}

impl ZeroPage {
    /// All of them, as they are shown.
    pub const ALL: [ZeroPage; 4] = [ZeroPage::Huge, ZeroPage::Virtual, ZeroPage::Small, ZeroPage::None];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            ZeroPage::Huge => "huge",
            ZeroPage::Virtual => "virtual",
            ZeroPage::Small => "small",
            ZeroPage::None => "none",
        }
    }

    /// Whether it is mapped by huge leaves.
    const fn is_huge(self) -> bool {
        matches!(self, ZeroPage::Huge | ZeroPage::None)
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes that are compared, half with half.
    pub memory: u64,
    /// Bytes that are read once, a byte of each page.
    pub touched: u64,
    /// Rounds on the host, of which the fastest counts.
    pub rounds: usize,
    /// What the library and the model are shown with.
    pub kinds: Vec<ZeroPage>,
}

impl Plan {
    /// Runs all of it.
    ///
    /// # Errors
    /// What the host or the library says.
    pub fn run(&self, setting: HostInfo, progress: &Progress) -> Result<Report, Failure> {
        let geometry = Geometry::SEED;
        progress.step("the host");
        let host = host::rows(self.memory, self.touched, self.rounds)?;
        let mut model = Vec::new();
        for &kind in &self.kinds {
            progress.step(kind.name());
            for pattern in Pattern::ALL {
                let misses = misses_of(kind, pattern, self.memory, geometry);
                model.push(ModelRow { zero_page: kind, pattern: pattern.name(), misses });
            }
        }
        let mut library = Vec::new();
        for &kind in &self.kinds {
            progress.step(kind.name());
            library.extend(library::rows(kind, self.memory, self.touched)?);
        }
        let Plan { memory, touched, rounds, .. } = *self;
        Ok(Report {
            setting,
            memory_bytes: memory,
            touched_bytes: touched,
            rounds,
            geometry,
            host,
            model,
            library,
        })
    }

    /// Steps of progress.
    pub fn steps(&self) -> usize {
        1 + 2 * self.kinds.len()
    }
}
