//! The setting of huge pages that a replay runs with: the recorded machine's, unless another is asked for.

use super::life::Family;
use super::step::Act;
use crate::trace::Header;
use interleaf::units::{Order, PAGE_SIZE};
use interleaf::vma::{HugePolicy, MthpPolicies, MthpPolicy, SharedHugePolicy, ZeroPagePolicy};
use interleaf_linux_abi::advice;

/// When memory gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeSetting {
    /// The policy of the recorded machine, as far as its trace says; else never.
    pub recorded: HugePolicy,
    /// That of the replay.
    pub policy: HugePolicy,
    /// The recorded machine's policy for all sizes, which sizes inherit.
    of_all: HugePolicy,
    /// What the recorded machine says of mTHP sizes.
    said_sizes: MthpPolicies,
    /// When shared memory without a file gets huge pages, on the recorded machine and in the replay.
    pub shared: SharedHugePolicy,
    /// What loads of untouched memory find.
    pub zero: ZeroPagePolicy,
}

impl HugeSetting {
    /// The recorded machine's. A setting of the one size that we have goes before the one for all sizes.
    pub(super) fn recorded(header: &Header) -> Self {
        let text = |name: &str| settings(header).find(|(file, _)| *file == name).map(|(_, text)| text);
        let of_all = text("enabled").and_then(policy_in).unwrap_or_default();
        let recorded = text("hugepages-2048kB/enabled").and_then(policy_in).unwrap_or(of_all);
        let said = |sizes: MthpPolicies, (file, text)| match (size_in(file), size_policy_in(text)) {
            (Some(order), Some(policy)) => sizes.with(order, policy),
            _ => sizes,
        };
        let said_sizes = settings(header).fold(MthpPolicies::NEVER, said);
        let shared = text("shmem_enabled").and_then(shared_policy_in).unwrap_or_default();
        let zero = match text("use_zero_page").map(str::trim) {
            Some("0") => ZeroPagePolicy::None,
            _ => ZeroPagePolicy::Huge,
        };
        Self { recorded, policy: recorded, of_all, said_sizes, shared, zero }
    }

    /// The same with another policy of huge pages, which the mTHP sizes inherit that inherit one.
    pub(super) fn with_policy(self, policy: HugePolicy) -> Self {
        Self { policy, ..self }
    }

    /// The mTHP sizes that the replay uses; none inherits.
    pub fn sizes(&self) -> MthpPolicies {
        if self.is_recorded() { self.recorded_sizes() } else { resolved(self.said_sizes, self.policy) }
    }

    /// Those that the recorded machine used.
    pub(super) fn recorded_sizes(&self) -> MthpPolicies {
        resolved(self.said_sizes, self.of_all)
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
        let of_shared = match self.shared {
            SharedHugePolicy::Never => HugePolicy::Never,
            SharedHugePolicy::Advise => HugePolicy::Madvise,
            SharedHugePolicy::Always => HugePolicy::Always,
        };
        let of_sizes = MthpPolicies::orders().map(|order| self.sizes().policy(order).resolve(self.policy));
        of_sizes.chain([self.policy, of_shared]).any(|policy| match policy {
            HugePolicy::Never => false,
            HugePolicy::Madvise => is_advised(),
            HugePolicy::Always => true,
        })
    }
}

/// What the recorded machine says of transparent huge pages: names of files in Linux's folder, and their
/// text.
fn settings(header: &Header) -> impl Iterator<Item = (&str, &str)> {
    let all = header.host.settings.iter();
    all.filter_map(|(file, text)| Some((file.split_once(FOLDER)?.1, text.as_str())))
}

const FOLDER: &str = "/transparent_hugepage/";

/// Settings of the recorded machine that no policy of the library stands for, in Linux's words.
pub(super) fn settings_without_policy(header: &Header) -> Vec<String> {
    let is_without = |&(file, text): &(&str, &str)| {
        let of_size = file.starts_with("hugepages-") && file.ends_with("/enabled");
        match file {
            "enabled" => policy_in(text).is_none(),
            "shmem_enabled" => shared_policy_in(text).is_none(),
            _ if of_size && (size_in(file).is_some() || file == "hugepages-2048kB/enabled") => {
                size_policy_in(text).is_none()
            }
            _ => of_size && size_policy_in(text) != Some(MthpPolicy::Never),
        }
    };
    settings(header).filter(is_without).map(|(file, text)| format!("{file} is {text}")).collect()
}

/// The order of the mTHP size that a file is about.
fn size_in(file: &str) -> Option<Order> {
    let kib: u64 = file.strip_prefix("hugepages-")?.strip_suffix("kB/enabled")?.parse().ok()?;
    MthpPolicies::orders().find(|order| order.frames() * PAGE_SIZE as u64 == kib << 10)
}

/// The same sizes, where those that inherit have this policy.
fn resolved(sizes: MthpPolicies, inherited: HugePolicy) -> MthpPolicies {
    let policy = |order| match sizes.policy(order).resolve(inherited) {
        HugePolicy::Never => MthpPolicy::Never,
        HugePolicy::Madvise => MthpPolicy::Madvise,
        HugePolicy::Always => MthpPolicy::Always,
    };
    MthpPolicies::orders().fold(MthpPolicies::NEVER, |all, order| all.with(order, policy(order)))
}

/// The word in brackets.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// The policy in brackets for shared memory; `None` where the library has none, as for `[within_size]`.
fn shared_policy_in(text: &str) -> Option<SharedHugePolicy> {
    match chosen(text)? {
        "never" => Some(SharedHugePolicy::Never),
        "advise" => Some(SharedHugePolicy::Advise),
        "always" => Some(SharedHugePolicy::Always),
        _ => None,
    }
}

/// The policy in brackets for one size.
fn size_policy_in(text: &str) -> Option<MthpPolicy> {
    match chosen(text)? {
        "never" => Some(MthpPolicy::Never),
        "madvise" => Some(MthpPolicy::Madvise),
        "always" => Some(MthpPolicy::Always),
        "inherit" => Some(MthpPolicy::Inherit),
        _ => None,
    }
}

/// The policy in brackets; `None` where there is none, as for `[inherit]`.
fn policy_in(text: &str) -> Option<HugePolicy> {
    match chosen(text)? {
        "never" => Some(HugePolicy::Never),
        "madvise" => Some(HugePolicy::Madvise),
        "always" => Some(HugePolicy::Always),
        _ => None,
    }
}

#[cfg(test)]
#[path = "tests/huge_setting.rs"]
mod tests;
