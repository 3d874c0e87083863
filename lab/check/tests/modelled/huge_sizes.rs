//! mTHP sizes: random sequences against the model, and pairs of operations on
//! the seeded machine.

use crate::huge::play;
use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::units::Order;
use interleaf::vma::{HugePolicy, MthpPolicies, MthpPolicy};
use interleaf_check::huge::{SequenceCounts, run_sequence};
use interleaf_check::pairs::scene::{all_huge, run_size_cuts, run_size_pair};
use std::ops::Range;

/// Sizes of a seed: all, one, or some of them by advice.
fn sizes_of(seed: u64) -> MthpPolicies {
    let size = Order(2 + (seed / 4 % 7) as u8);
    match seed % 4 {
        0 => MthpPolicies::all(MthpPolicy::Always),
        1 => MthpPolicies::NEVER.with(size, MthpPolicy::Always),
        2 => MthpPolicies::all(MthpPolicy::Madvise).with(size, MthpPolicy::Always),
        _ => MthpPolicies::all(MthpPolicy::Inherit).with(size, MthpPolicy::Never),
    }
}

fn sequences<F: Format>(seeds: Range<u64>, path: Path) {
    let mut sum = SequenceCounts::default();
    for seed in seeds {
        let policy = [HugePolicy::Never, HugePolicy::Madvise, HugePolicy::Always][(seed % 3) as usize];
        let counts = run_sequence::<F>(seed, path, policy, sizes_of(seed));
        sum.installed += counts.installed;
        sum.split += counts.split;
        sum.folios += counts.folios;
    }
    assert!(sum.folios > 100 && sum.installed > 10 && sum.split > 3, "{sum:?}");
}

#[test]
fn speculative_faults_with_sizes_between_agree_with_the_model_on_x86() {
    sequences::<X86_64>(0..60, Path::Speculative);
}

#[test]
fn locked_faults_with_sizes_between_agree_with_the_model_on_aarch64() {
    sequences::<Aarch64>(1000..1060, Path::Locked);
}

fn pairs<F: Format>(seeds: Range<u64>) {
    let sizes = MthpPolicies::NEVER.with(Order(4), MthpPolicy::Always).with(Order(2), MthpPolicy::Always);
    play(all_huge(), |pair| run_size_pair::<F>(pair, sizes, seeds.clone()));
}

#[test]
fn pairs_of_operations_on_folios_lose_nothing_on_x86() {
    pairs::<X86_64>(0..6);
}

#[test]
fn pairs_of_operations_on_folios_lose_nothing_on_aarch64() {
    pairs::<Aarch64>(100..104);
}

#[test]
fn no_folio_reaches_beyond_what_a_writer_has_left_of_its_mapping() {
    let sizes = MthpPolicies::NEVER.with(Order(3), MthpPolicy::Always);
    run_size_cuts::<X86_64>(sizes, 0..300).unwrap_or_else(|report| panic!("{report}"));
}
