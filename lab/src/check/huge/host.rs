//! The host's setting of huge pages: whether the oracle can be asked about them, setting it for a run, and
//! the counters that tell where the host's supply has decided.

use crate::check::oracle_host::unfit;
use interleaf::vma::HugePolicy;
use std::fs::{read_dir, read_to_string, write};
use std::io::Result;

const ROOT: &str = "/sys/kernel/mm/transparent_hugepage";
/// The size of a huge page, as the host names it.
const HUGE_SIZE: &str = "hugepages-2048kB";

/// The word of a policy.
#[must_use]
pub fn word_of(policy: HugePolicy) -> &'static str {
    match policy {
        HugePolicy::Never => "never",
        HugePolicy::Madvise => "madvise",
        HugePolicy::Always => "always",
    }
}

/// The host's policy now, if it has one.
#[must_use]
pub fn host_policy() -> Option<HugePolicy> {
    let set = chosen(&read_to_string(format!("{ROOT}/enabled")).ok()?)?;
    [HugePolicy::Never, HugePolicy::Madvise, HugePolicy::Always]
        .into_iter()
        .find(|policy| word_of(*policy) == set)
}

/// Whether the host's huge pages are those that the model describes.
pub(crate) fn fit(policy: HugePolicy) -> Result<()> {
    let word = word_of(policy);
    if host_policy() != Some(policy) {
        return Err(unfit(&format!("transparent_hugepage/enabled = {word}")));
    }
    if read_to_string(format!("{ROOT}/use_zero_page"))?.trim() != "1" {
        return Err(unfit("transparent_hugepage/use_zero_page = 1"));
    }
    for size in read_dir(ROOT)? {
        let name = size?.file_name().to_string_lossy().into_owned();
        let Ok(text) = read_to_string(format!("{ROOT}/{name}/enabled")) else { continue };
        let set = chosen(&text).unwrap_or_default();
        let is_fit = if name == HUGE_SIZE { set == "inherit" || set == word } else { set == "never" };
        if !is_fit {
            let wanted = if name == HUGE_SIZE { "inherit" } else { "never" };
            return Err(unfit(&format!("transparent_hugepage/{name}/enabled = {wanted}, not {set}")));
        }
    }
    Ok(())
}

/// The word in brackets: `always [madvise] never` is `madvise`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}

/// The host's setting, changed as long as this lives.
#[derive(Debug)]
pub struct HostSetting {
    before: Option<HugePolicy>,
}

impl HostSetting {
    /// Sets the host's policy. All processes of the host have it then.
    ///
    /// # Errors
    /// What the host says: only root may.
    pub fn change(policy: HugePolicy) -> Result<Self> {
        let before = host_policy().ok_or_else(|| unfit("transparent huge pages"))?;
        if before == policy {
            return Ok(Self { before: None });
        }
        write(format!("{ROOT}/enabled"), word_of(policy))?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for HostSetting {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && let Err(error) = write(format!("{ROOT}/enabled"), word_of(before))
        {
            eprintln!("transparent_hugepage/enabled was {}: {error}", word_of(before));
        }
    }
}

/// What the host has counted since it started, for all of its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Huge pages, and the huge zero page, for which there was no block.
    pub lacking: u64,
    /// Regions that khugepaged has collapsed.
    pub collapsed: u64,
}

impl HostCounts {
    /// The counts now.
    ///
    /// # Errors
    /// That they cannot be read.
    pub fn read() -> Result<Self> {
        const LACKING: [&str; 4] = [
            "thp_fault_fallback ",
            "thp_fault_fallback_charge ",
            "thp_collapse_alloc_failed ",
            "thp_zero_page_alloc_failed ",
        ];
        let text = read_to_string("/proc/vmstat")?;
        let count = |line: &str| LACKING.iter().find_map(|name| line.strip_prefix(name)?.parse::<u64>().ok());
        let collapsed = read_to_string(format!("{ROOT}/khugepaged/pages_collapsed"))?;
        let collapsed = collapsed.trim().parse().map_err(|_| unfit("khugepaged/pages_collapsed"))?;
        Ok(Self { lacking: text.lines().filter_map(count).sum(), collapsed })
    }
}
