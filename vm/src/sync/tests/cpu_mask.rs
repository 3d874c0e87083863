//! Sets that CPUs change, against a set of numbers.

use super::*;
use crate::machine::testing::TestCpu;
use std::collections::BTreeSet;
use std::vec::Vec;

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// What the set must list after `cpu`.
fn expected(tree: &BTreeSet<u32>, cpu: u32) -> Vec<u32> {
    tree.range(cpu + 1..).chain(tree.range(..=cpu)).copied().collect()
}

fn against_a_tree<W: CpuWords>(seed: u64) {
    let (mask, mut tree, mut state) = (AtomicCpuMask::<TestCpu, W>::new(), BTreeSet::new(), seed);
    let edges = [0, 63, 64, W::MAX_CPUS - 64, W::MAX_CPUS - 1].map(|cpu| cpu % W::MAX_CPUS);
    for step in 0..300 {
        let mut cpu = || {
            let any = next(&mut state) as u32 % W::MAX_CPUS;
            edges.get(next(&mut state) as usize % 10).copied().unwrap_or(any)
        };
        let (changed, asked) = (cpu(), cpu());
        if next(&mut state).is_multiple_of(2) {
            assert_eq!(mask.remove(CpuId(changed)), tree.remove(&changed));
        } else {
            mask.insert(CpuId(changed));
            tree.insert(changed);
        }
        let listed: Vec<u32> = mask.iter_after(CpuId(asked)).map(|cpu| cpu.0).collect();
        assert_eq!(listed, expected(&tree, asked), "after {asked}, step {step}");
        assert_eq!(mask.contains(CpuId(asked)), tree.contains(&asked));
        assert_eq!(mask.has_other_than(CpuId(asked)), tree.iter().any(|&cpu| cpu != asked));
        assert_eq!(mask.is_empty(), tree.is_empty());
        assert!(mask.snapshot_racy().iter().map(|cpu| cpu.0).eq(tree.iter().copied()));
    }
}

#[test]
fn a_set_of_any_width_lists_its_cpus_from_any_cpu_on() {
    for seed in 0..20 {
        against_a_tree::<[u64; 1]>(seed);
        against_a_tree::<[u64; 2]>(seed);
        against_a_tree::<[u64; 64]>(seed);
    }
}

#[test]
fn a_cpu_that_no_word_names_is_in_no_set() {
    let mask = AtomicCpuMask::<TestCpu, [u64; 2]>::new();
    mask.insert(CpuId(127));
    for odd in [128, 4096, u32::MAX] {
        assert!(!mask.contains(CpuId(odd)) && !mask.remove(CpuId(odd)) && mask.has_other_than(CpuId(odd)));
        assert_eq!(mask.iter_after(CpuId(odd)).collect::<Vec<_>>(), [CpuId(127)]);
    }
}
