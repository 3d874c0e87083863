//! The setting of huge pages that a replay runs with: the recorded machine's, unless another is asked for.

use super::life::Family;
use super::step::Act;
use crate::trace::Header;
use interleaf::vma::{HugePolicy, ZeroPagePolicy};
use interleaf_linux_abi::advice;

/// When memory gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeSetting {
    /// The policy of the recorded machine, as far as its trace says; else never.
    pub recorded: HugePolicy,
    /// That of the replay.
    pub policy: HugePolicy,
    /// What loads of untouched memory find.
    pub zero: ZeroPagePolicy,
}

impl HugeSetting {
    /// The recorded machine's. A setting of the one size that we have goes before the one for all sizes.
    pub(super) fn recorded(header: &Header) -> Self {
        let text = |name: &str| {
            let named = header.host.settings.iter().find(|(file, _)| file.ends_with(name));
            named.map(|(_, text)| text.as_str())
        };
        let of_all = text("transparent_hugepage/enabled").and_then(policy_in);
        let recorded =
            text("hugepages-2048kB/enabled").and_then(policy_in).or(of_all).unwrap_or(HugePolicy::Never);
        let zero = match text("transparent_hugepage/use_zero_page").map(str::trim) {
            Some("0") => ZeroPagePolicy::None,
            _ => ZeroPagePolicy::Huge,
        };
        Self { recorded, policy: recorded, zero }
    }

    /// Whether the policy is the recorded one.
    pub fn is_recorded(&self) -> bool {
        self.policy == self.recorded
    }

    /// Whether the family may get huge pages.
    pub(super) fn may_apply(&self, family: &Family) -> bool {
        let is_advised = || {
            let advises = |act: &Act| matches!(act, Act::Madvise { advice: advice::HUGEPAGE, .. });
            family.steps.iter().flat_map(|steps| &steps.calls).any(|call| advises(&call.act))
        };
        match self.policy {
            HugePolicy::Never => false,
            HugePolicy::Madvise => is_advised(),
            HugePolicy::Always => true,
        }
    }
}

/// The policy in brackets; `None` where there is none, as for `[inherit]`.
fn policy_in(text: &str) -> Option<HugePolicy> {
    match text.split_once('[')?.1.split_once(']')?.0 {
        "never" => Some(HugePolicy::Never),
        "madvise" => Some(HugePolicy::Madvise),
        "always" => Some(HugePolicy::Always),
        _ => None,
    }
}

#[cfg(test)]
#[path = "tests/huge_setting.rs"]
mod tests;
