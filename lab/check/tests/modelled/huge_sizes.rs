//! Sizes between a base page and a huge page: random sequences against the model, and pairs of operations on
//! the seeded machine.

use crate::huge::play;
use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::units::Order;
use interleaf::vma::{HugePolicy, HugeSizes, SizePolicy};
use interleaf_check::huge::{SequenceCounts, run_sequence};
use interleaf_check::pairs::scene::{all_huge, run_size_cuts, run_size_pair};
use std::ops::Range;

/// Sizes of a seed: all, one, or some of them by advice.
fn sizes_of(seed: u64) -> HugeSizes {
    let size = Order(2 + (seed / 4 % 7) as u8);
    match seed % 4 {
        0 => HugeSizes::all(SizePolicy::Always),
        1 => HugeSizes::NEVER.with(size, SizePolicy::Always),
        2 => HugeSizes::all(SizePolicy::Madvise).with(size, SizePolicy::Always),
        _ => HugeSizes::all(SizePolicy::Inherit).with(size, SizePolicy::Never),
    }
}

fn sequences<F: Format>(seeds: Range<u64>, path: Path) {
    let mut sum = SequenceCounts::default();
    for seed in seeds {
        let policy = [HugePolicy::Never, HugePolicy::Madvise, HugePolicy::Always][(seed % 3) as usize];
        let counts = run_sequence::<F>(seed, path, policy, sizes_of(seed));
        sum.installed += counts.installed;
        sum.split += counts.split;
        sum.blocks += counts.blocks;
    }
    assert!(sum.blocks > 100 && sum.installed > 10 && sum.split > 3, "{sum:?}");
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
    let sizes = HugeSizes::NEVER.with(Order(4), SizePolicy::Always).with(Order(2), SizePolicy::Always);
    play(all_huge(), |pair| run_size_pair::<F>(pair, sizes, seeds.clone()));
}

#[test]
fn pairs_of_operations_on_blocks_lose_nothing_on_x86() {
    pairs::<X86_64>(0..6);
}

#[test]
fn pairs_of_operations_on_blocks_lose_nothing_on_aarch64() {
    pairs::<Aarch64>(100..104);
}

#[test]
fn no_block_reaches_beyond_what_a_writer_has_left_of_its_mapping() {
    let sizes = HugeSizes::NEVER.with(Order(3), SizePolicy::Always);
    run_size_cuts::<X86_64>(sizes, 0..300).unwrap_or_else(|report| panic!("{report}"));
}
