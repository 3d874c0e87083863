//! `--huge`: when memory gets huge pages. `--huge-sizes`: when it gets mTHP folios.

use crate::measure::fault::report::huge_name;
use crate::measure::fault::report::{SIZE_NAMES, size_policy_name};
use interleaf::vma::{HugePolicy, MthpPolicies, MthpPolicy};

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

/// Reads a list of mTHP sizes, as `64K,1M=madvise`; without a policy a size is
/// used always. `all` stands for each size.
///
/// # Errors
/// What is no size or no policy.
pub fn sizes_in(text: &str) -> Result<MthpPolicies, String> {
    text.split(',').try_fold(MthpPolicies::NEVER, |sizes, one| {
        let (size, policy) = one.split_once('=').unwrap_or((one, "always"));
        let all = [MthpPolicy::Never, MthpPolicy::Madvise, MthpPolicy::Always, MthpPolicy::Inherit];
        let policy = all.into_iter().find(|known| size_policy_name(*known) == policy);
        let policy = policy.ok_or_else(|| format!("{one}: never, madvise, always or inherit"))?;
        if size == "all" {
            return Ok(MthpPolicies::orders().fold(sizes, |sizes, order| sizes.with(order, policy)));
        }
        let mut known = MthpPolicies::orders().zip(SIZE_NAMES);
        let order = known.find(|(_, name)| *name == size).map(|(order, _)| order);
        let order = order.ok_or_else(|| format!("{one}: all, or one of {}", SIZE_NAMES.join(", ")))?;
        Ok(sizes.with(order, policy))
    })
}

#[cfg(test)]
#[path = "tests/huge.rs"]
mod tests;
