//! `--huge`: when memory gets huge pages.

use crate::measure::fault::report::huge_name;
use interleaf::vma::HugePolicy;

/// When memory gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Huge {
    /// Never
    Never,
    /// Where a program asks for it
    Madvise,
    /// Wherever one fits
    Always,
}

impl Huge {
    /// The library's policy.
    pub fn policy(self) -> HugePolicy {
        match self {
            Huge::Never => HugePolicy::Never,
            Huge::Madvise => HugePolicy::Madvise,
            Huge::Always => HugePolicy::Always,
        }
    }

    /// Its name, as Linux and the kernel have it.
    pub fn name(self) -> &'static str {
        huge_name(self.policy())
    }
}
