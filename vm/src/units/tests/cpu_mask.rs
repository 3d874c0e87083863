//! Sets of CPUs against a set of numbers.

use crate::units::*;
use std::collections::BTreeSet;
use std::vec::Vec;

/// The next number of a sequence that its start decides.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// Random changes of a mask of `W`, each compared with the same change of a tree.
fn against_a_tree<W: CpuWords>(seed: u64) {
    let (mut mask, mut tree, mut state) = (CpuMask::<W>::new(), BTreeSet::new(), seed);
    let edges = [0, 63, 64, W::MAX_CPUS - 1, W::MAX_CPUS, W::MAX_CPUS + 63];
    for step in 0..400 {
        let wide = next(&mut state) as u32 % (W::MAX_CPUS + 8);
        let cpu = edges.get(next(&mut state) as usize % 12).copied().unwrap_or(wide);
        if next(&mut state).is_multiple_of(3) {
            mask.remove(CpuId(cpu));
            tree.remove(&cpu);
        } else {
            mask.insert(CpuId(cpu));
            tree.extend((cpu < W::MAX_CPUS).then_some(cpu));
        }
        assert_eq!(mask.contains(CpuId(cpu)), tree.contains(&cpu), "cpu {cpu}, step {step}");
        let borrowed: &CpuMask = mask.as_mask();
        assert!(borrowed.iter().map(|cpu| cpu.0).eq(tree.iter().copied()), "step {step}");
        assert_eq!((borrowed.count() as usize, borrowed.is_empty()), (tree.len(), tree.is_empty()));
    }
}

#[test]
fn a_mask_of_any_width_is_a_set() {
    for seed in 0..20 {
        against_a_tree::<[u64; 1]>(seed);
        against_a_tree::<[u64; 3]>(seed);
        against_a_tree::<[u64; 64]>(seed);
    }
}

#[test]
fn a_mask_takes_the_bytes_that_its_width_needs() {
    assert_eq!((size_of::<CpuMask<[u64; 1]>>(), size_of::<CpuMask<[u64; 64]>>()), (8, 512));
    assert_eq!(<[u64; MAX_CPUS / 64] as CpuWords>::MAX_CPUS, MAX_CPUS as u32);
}

#[test]
fn a_mask_prints_its_cpus_and_shows_its_words() {
    let mut mask = CpuMask::<[u64; 2]>::first(2);
    mask.insert(CpuId(70));
    mask.remove(CpuId(0));
    assert_eq!(std::format!("{mask:?}"), "{cpu 1, cpu 70}");
    assert_eq!(mask.words(), [2, 64]);
    mask.words_mut()[1] = 1;
    assert_eq!(mask.iter().collect::<Vec<_>>(), [CpuId(1), CpuId(64)]);
}
