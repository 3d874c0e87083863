//! Signs of the huge pages that Linux used.
//!
//! A trace does not say what size a fault mapped. Two signs are left: memory that was advised to be huge, and
//! pages that are resident at the end though none of them faulted.

use super::huge_setting::settings_without_policy;
use super::life::{End, Family, Life};
use super::ranges::Ranges;
use super::setup::is_anonymous;
use super::step::{Steps, pages};
use crate::show::table::grouped;
use crate::trace::{Header, Kind, Mapping, Sys};
use interleaf_linux_abi::advice;
use serde::Serialize;

/// The signs of huge pages in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// `transparent_hugepage/enabled` of the recorded machine, the setting in brackets.
    pub setting: String,
    /// Settings of that machine for which the library has no policy: it has none of those pages.
    pub settings_without_policy: Vec<String>,
    /// Granted calls of `madvise(MADV_HUGEPAGE)`.
    pub advised_calls: u64,
    /// Pages that they named.
    pub advised_pages: u64,
    /// Faults that Linux took there afterwards.
    pub faults_in_advised: u64,
    /// Anonymous pages resident at the end, in mappings of 2 MiB and more, that neither faulted nor were
    /// filled by a call.
    pub resident_without_fault: u64,
}

const HUGE_BYTES: u64 = 2 << 20;

impl HugePages {
    /// The signs in the lives of a trace.
    pub(super) fn of(header: &Header, families: &[Family]) -> HugePages {
        let found = header.host.settings.iter().find(|(file, _)| file.ends_with("hugepage/enabled"));
        let setting = found.map(|(_, text)| text.clone()).unwrap_or_default();
        let settings_without_policy = settings_without_policy(header);
        let mut all = HugePages { setting, settings_without_policy, ..HugePages::default() };
        for (life, steps) in families.iter().flat_map(Family::each) {
            all.add_advised(life);
            all.add_resident(life, steps);
        }
        all
    }

    /// Whether there is anything to say.
    pub fn are_likely(&self) -> bool {
        self.advised_calls > 0 || self.resident_without_fault > 0
    }

    /// What there is to say, or nothing.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for setting in &self.settings_without_policy {
            text += &format!("huge pages: {setting}, which the library does not have: replayed as never\n");
        }
        if self.advised_calls > 0 {
            text += &format!(
                "huge pages: MADV_HUGEPAGE on {} pages, where Linux took {} faults; setting {}\n",
                grouped(self.advised_pages as i64),
                grouped(self.faults_in_advised as i64),
                self.setting,
            );
        }
        if self.resident_without_fault > 0 {
            text += &format!(
                "huge pages: {} pages were resident at the end that no fault had touched\n",
                grouped(self.resident_without_fault as i64),
            );
        }
        text
    }

    fn add_advised(&mut self, life: &Life) {
        let mut advised = Ranges::default();
        for event in &life.events {
            match &event.kind {
                Kind::Fault(fault) => {
                    self.faults_in_advised += u64::from(advised.contains(fault.address));
                }
                Kind::Call(call) if is_huge_advice(call.sys, call.args[2]) && call.result == Some(0) => {
                    let range = pages(call.args[0], call.args[1]);
                    self.advised_calls += 1;
                    self.advised_pages = self.advised_pages.saturating_add((range.end - range.start) / 4096);
                    advised.add(range);
                }
                _ => {}
            }
        }
    }

    /// Calls that fill or move pages make the count meaningless, and so does a fork, which leaves the child
    /// the parent's pages: such lives are passed over.
    fn add_resident(&mut self, life: &Life, steps: &Steps) {
        let End::Exited(image) = &life.end else { return };
        let fills = |sys| matches!(sys, Sys::Mremap | Sys::Mlock | Sys::Mlock2 | Sys::Mlockall);
        if life.forked_from.is_some()
            || steps
                .calls
                .iter()
                .any(|call| fills(call.sys) || call.populated_pages() + call.collapsed_pages() > 0)
        {
            return;
        }
        let mut faulted: Vec<u64> = life.events.iter().filter_map(page_of_fault).collect();
        faulted.sort_unstable();
        faulted.dedup();
        let before = |address: u64| faulted.partition_point(|&page| page < address / 4096);
        let large = |m: &&Mapping| is_anonymous(m) && m.end - m.start >= HUGE_BYTES;
        for mapping in image.mappings.iter().filter(large) {
            let touched = (before(mapping.end) - before(mapping.start)) as u64;
            self.resident_without_fault += (mapping.rss_kib / 4).saturating_sub(touched);
        }
    }
}

fn is_huge_advice(sys: Sys, advice: u64) -> bool {
    sys == Sys::Madvise && advice as i32 == advice::HUGEPAGE
}

fn page_of_fault(event: &crate::trace::Event) -> Option<u64> {
    match &event.kind {
        Kind::Fault(fault) => Some(fault.address / 4096),
        _ => None,
    }
}
