//! The host's setting of huge pages: whether the oracle can be asked about them, setting it for a run, and
//! the counters that tell where the host's supply has decided.

use crate::oracle_host::unfit;
use interleaf::units::Order;
use interleaf::vma::{HugePolicy, MthpPolicies, MthpPolicy};
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

/// The word of a size's policy.
fn word_of_size(policy: MthpPolicy) -> &'static str {
    match policy {
        MthpPolicy::Inherit => "inherit",
        own => word_of(own.resolve(HugePolicy::Never)),
    }
}

/// The mTHP sizes that the host may have, and the names of their folders.
fn size_folders() -> impl Iterator<Item = (Order, String)> {
    MthpPolicies::orders().map(|order| (order, format!("hugepages-{}kB", order.bytes() >> 10)))
}

/// The host's mTHP sizes now.
///
/// # Errors
/// That the host has none.
pub fn host_sizes() -> Result<MthpPolicies> {
    let all = [MthpPolicy::Never, MthpPolicy::Madvise, MthpPolicy::Always, MthpPolicy::Inherit];
    size_folders().try_fold(MthpPolicies::NEVER, |sizes, (order, folder)| {
        let set = chosen(&read_to_string(format!("{ROOT}/{folder}/enabled"))?).unwrap_or_default();
        let policy = all.into_iter().find(|policy| word_of_size(*policy) == set);
        let policy = policy.ok_or_else(|| unfit(&format!("transparent_hugepage/{folder}: {set}")))?;
        Ok(sizes.with(order, policy))
    })
}

/// Whether the host's huge pages are those that the model describes.
pub(crate) fn fit(policy: HugePolicy, sizes: MthpPolicies) -> Result<()> {
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
        let order = size_folders().find(|(_, folder)| *folder == name).map(|(order, _)| order);
        let wanted = match order {
            _ if name == HUGE_SIZE => "inherit",
            Some(order) => word_of_size(sizes.policy(order)),
            None => "never",
        };
        if set != wanted && !(name == HUGE_SIZE && set == word) {
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
    /// Files, and the words that they had.
    before: Vec<(String, &'static str)>,
}

impl HostSetting {
    /// Sets the host's policies. All processes of the host have them then.
    ///
    /// # Errors
    /// What the host says: only root may.
    pub fn change(policy: HugePolicy, sizes: MthpPolicies) -> Result<Self> {
        let (before, mut set) = (host_policy(), Self { before: Vec::new() });
        let before = before.ok_or_else(|| unfit("transparent huge pages"))?;
        set.replace("enabled".into(), word_of(before), word_of(policy))?;
        // A host without mTHP sizes has none that are off.
        let Ok(before) = host_sizes() else {
            return if sizes.is_never() { Ok(set) } else { Err(unfit("mTHP sizes")) };
        };
        for (order, folder) in size_folders() {
            let words = (word_of_size(before.policy(order)), word_of_size(sizes.policy(order)));
            set.replace(format!("{folder}/enabled"), words.0, words.1)?;
        }
        Ok(set)
    }

    fn replace(&mut self, file: String, before: &'static str, word: &str) -> Result<()> {
        if before != word {
            write(format!("{ROOT}/{file}"), word)?;
            self.before.push((file, before));
        }
        Ok(())
    }
}

impl Drop for HostSetting {
    fn drop(&mut self) {
        for (file, word) in &self.before {
            if let Err(error) = write(format!("{ROOT}/{file}"), word) {
                eprintln!("transparent_hugepage/{file} was {word}: {error}");
            }
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
        let lacking: u64 = text.lines().filter_map(count).sum();
        Ok(Self { lacking: lacking + lacking_sizes(), collapsed })
    }
}

/// mTHP folios for which there was no memory.
fn lacking_sizes() -> u64 {
    let count = |folder: &str, name: &str| -> Option<u64> {
        read_to_string(format!("{ROOT}/{folder}/stats/{name}")).ok()?.trim().parse().ok()
    };
    let lacking = |(_, folder): (Order, String)| {
        let of = ["anon_fault_fallback", "anon_fault_fallback_charge"].map(|name| count(&folder, name));
        of.into_iter().flatten().sum::<u64>()
    };
    size_folders().map(lacking).sum()
}
