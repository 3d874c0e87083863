//! What the report says of huge pages and of memory.

use super::huge_setting::HugeSetting;
use super::report::Report;
use super::resident::ResidentLife;
use crate::show::table::grouped;
use interleaf::space::{Counter, Totals};
use interleaf::units::Order;
use interleaf::vma::{HugePolicy, MthpPolicies, SharedHugePolicy};

/// What is told of huge pages.
const HUGE_COUNTERS: &[Counter] =
    &[Counter::ThpFaultAlloc, Counter::ThpFaultFallback, Counter::ThpZeroPageAlloc, Counter::ThpSplitPmd];

/// A policy's name, as Linux has it.
pub(super) fn policy_name(policy: HugePolicy) -> &'static str {
    match policy {
        HugePolicy::Never => "never",
        HugePolicy::Madvise => "madvise",
        HugePolicy::Always => "always",
    }
}

/// The mTHP sizes that a setting uses, each with its policy, and the policy of shared memory.
pub(super) fn others(huge: HugeSetting) -> (Vec<String>, &'static str) {
    let of_size = |order: Order| match huge.sizes().policy(order).resolve(huge.policy) {
        HugePolicy::Never => None,
        policy => Some(format!("{} KiB {}", order.frames() * 4, policy_name(policy))),
    };
    let shared = match huge.shared {
        SharedHugePolicy::Never => "never",
        SharedHugePolicy::Advise => "advise",
        SharedHugePolicy::Always => "always",
    };
    (MthpPolicies::orders().filter_map(of_size).collect(), shared)
}

impl Report {
    /// Adds what the library has counted of huge pages.
    pub(super) fn count_huge(&mut self, counted: &Totals) {
        if self.huge_counts.is_empty() {
            self.huge_counts = HUGE_COUNTERS.iter().map(|counter| (counter.name(), 0)).collect();
        }
        self.huge_counts
            .iter_mut()
            .zip(HUGE_COUNTERS)
            .for_each(|(sum, counter)| sum.1 += counted.get(*counter));
    }

    /// The setting that was replayed, and where Linux's supply decided.
    pub(super) fn huge_text(&self) -> String {
        let is_never = [self.huge_policy, self.huge_shared] == ["never"; 2] && self.huge_sizes.is_empty();
        if is_never && self.huge_is_recorded {
            return String::new();
        }
        let whose = if self.huge_is_recorded { "as recorded" } else { "not as recorded" };
        let mut text = format!("replayed with huge pages {}, {whose}\n", self.huge_policy);
        if !self.huge_sizes.is_empty() {
            text += &format!("  mTHP sizes: {}\n", self.huge_sizes.join(", "));
        }
        if self.huge_shared != "never" {
            text += &format!("  of shared memory: {}, as recorded\n", self.huge_shared);
        }
        if !self.lacked_huge.is_empty() {
            let some: Vec<_> =
                self.lacked_huge.iter().take(5).map(|page| format!("{:x}", page << 12)).collect();
            text += &format!(
                "  Linux's supply of free huge frames decided at {} huge pages, which it lacked: {}\n",
                self.lacked_huge.len(),
                some.join(" "),
            );
        }
        text
    }

    /// Rows about memory.
    pub(super) fn memory_rows(&self) -> Vec<(&'static str, String)> {
        let ResidentLife { peak_kib, end_kib, linux_end_kib } = self.resident;
        let mut rows =
            vec![("anonymous memory at most, of a life", format!("{} KiB", grouped(peak_kib as i64)))];
        if let Some(linux) = linux_end_kib {
            let (ours, linux) = (grouped(end_kib as i64), grouped(linux as i64));
            rows.push(("the same at the end of all", format!("{ours} KiB, Linux {linux} KiB")));
        }
        let counts = self.huge_counts.iter().filter(|(_, count)| *count > 0);
        rows.extend(counts.map(|&(name, count)| (name, grouped(count as i64))));
        rows
    }
}
