//! Transparent huge pages: random sequences against the model, and pairs of operations on the seeded machine.

use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::vma::HugePolicy;
use interleaf::vma::MthpPolicies;
use interleaf_check::huge::{SequenceCounts, run_sequence};
use interleaf_check::pairs::scene::{
    all_collapses, all_forks, all_huge, all_objects, all_pool, run_huge_cuts, run_huge_pair, run_object_pair,
    run_pool_pair,
};
use interleaf_lab::machine::baton::Report;
use std::fmt::Debug;
use std::ops::Range;

/// Plays each pair, of any kind of memory.
pub fn play<P: Copy + Debug>(pairs: impl Iterator<Item = P>, run: impl Fn(P) -> Result<u64, Box<Report>>) {
    for pair in pairs {
        run(pair).unwrap_or_else(|report| panic!("{pair:?}: {report}"));
    }
}

fn sequences<F: Format>(seeds: Range<u64>, path: Path) {
    let mut sum = SequenceCounts::default();
    for seed in seeds {
        let policy = if seed % 3 == 0 { HugePolicy::Madvise } else { HugePolicy::Always };
        let counts = run_sequence::<F>(seed, path, policy, MthpPolicies::NEVER);
        sum.installed += counts.installed;
        sum.split += counts.split;
        sum.collapsed += counts.collapsed;
    }
    assert!(sum.installed > 20 && sum.split > 5 && sum.collapsed > 0, "{sum:?}");
}

#[test]
fn speculative_faults_with_huge_pages_agree_with_the_model_on_x86() {
    sequences::<X86_64>(0..40, Path::Speculative);
}

#[test]
fn locked_faults_with_huge_pages_agree_with_the_model_on_aarch64() {
    sequences::<Aarch64>(1000..1040, Path::Locked);
}

#[test]
fn pairs_of_operations_on_huge_pages_lose_nothing_on_x86() {
    play(all_huge(), |pair| run_huge_pair::<X86_64>(pair, 0..6));
}

#[test]
fn pairs_of_operations_on_huge_pages_lose_nothing_on_aarch64() {
    play(all_huge(), |pair| run_huge_pair::<Aarch64>(pair, 100..104));
}

#[test]
fn no_huge_page_reaches_beyond_what_a_writer_has_left_of_its_mapping() {
    run_huge_cuts::<X86_64>(0..300).unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn a_collapse_beside_each_operation_loses_nothing_on_x86() {
    play(all_collapses(), |pair| run_huge_pair::<X86_64>(pair, 0..30));
}

#[test]
fn a_collapse_beside_each_operation_loses_nothing_on_aarch64() {
    play(all_collapses(), |pair| run_huge_pair::<Aarch64>(pair, 200..220));
}

#[test]
fn a_child_that_uses_what_it_shares_beside_each_operation_loses_nothing_on_x86() {
    play(all_forks(), |pair| run_huge_pair::<X86_64>(pair, 0..20));
}

#[test]
fn a_child_that_uses_what_it_shares_beside_each_operation_loses_nothing_on_aarch64() {
    play(all_forks(), |pair| run_huge_pair::<Aarch64>(pair, 300..312));
}

#[test]
fn pairs_of_operations_on_the_reserved_pool_lose_nothing_on_x86() {
    play(all_pool(), |pair| run_pool_pair::<X86_64>(pair, 0..8));
}

#[test]
fn pairs_of_operations_on_the_reserved_pool_lose_nothing_on_aarch64() {
    play(all_pool(), |pair| run_pool_pair::<Aarch64>(pair, 100..106));
}

#[test]
fn pairs_of_operations_on_huge_pages_of_shared_memory_lose_nothing_on_x86() {
    play(all_objects(), |pair| run_object_pair::<X86_64>(pair, 0..12));
}

#[test]
fn pairs_of_operations_on_huge_pages_of_shared_memory_lose_nothing_on_aarch64() {
    play(all_objects(), |pair| run_object_pair::<Aarch64>(pair, 100..112));
}
