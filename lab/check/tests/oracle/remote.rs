//! Copies from and to a process by another one, and a debugger's stores: the library and Linux say the same.

use crate::world::{
    NONE, PRIVATE, R, RW, SHARED, advise, map, map_as, oracle, page, protect, read, setting, unmap, write,
};
use interleaf::space::Path;
use interleaf::table::format::X86_64;
use interleaf_check::calls::{PAGE, advice};
use interleaf_check::library::Library;
use interleaf_check::remote::{RemoteAnswer, RemoteStep, RemoteStep::*};
use interleaf_lab::rng::Rng;

/// What the library answers on both paths of faults, and Linux where it can be asked: the same.
fn answers(steps: &[RemoteStep]) -> Vec<RemoteAnswer> {
    let [said, locked] = [Path::Speculative, Path::Locked]
        .map(|path| Library::<X86_64>::new(setting(), path).expect("a machine").remote(steps));
    assert_eq!(said, locked, "the paths differ");
    if let Some(mut oracle) = oracle() {
        let linux = oracle.remote(steps).expect("no step kills the process");
        for (nth, (linux, said)) in linux.iter().zip(&said).enumerate() {
            assert_eq!(linux, said, "Linux says the left to step {nth} of {steps:?}");
        }
    }
    said
}

fn load(nth: u64, len: usize) -> RemoteStep {
    Load { addr: page(nth), len }
}

fn store(nth: u64, byte: u8, forced: bool) -> RemoteStep {
    Store { addr: page(nth), len: 3, byte, forced }
}

#[test]
fn a_store_asks_for_the_right_and_a_forced_one_only_where_memory_is_shared() {
    for (flags, rights, forced, is_stored) in [
        (PRIVATE, RW, false, true),
        (PRIVATE, R, false, false),
        (PRIVATE, R, true, true),
        (PRIVATE, NONE, true, true),
        (SHARED, RW, true, true),
        (SHARED, R, true, false),
        (SHARED, NONE, true, false),
    ] {
        // Absent, the zero page or a page of the object, and written.
        let before = [map_as(0..3, RW, flags), read(1), write(2), protect(0..3, rights)].map(Call);
        let stores = [0, 1, 2].map(|nth| store(nth, 9, forced));
        let after = [Call(protect(0..3, R)), load(0, 4), load(1, 4), load(2, 4)];
        let said = answers(&[&before[..], &stores, &after].concat());
        let stored = if is_stored { Some(vec![9; 3]) } else { None };
        assert_eq!(said[4..7], [stored.clone(), stored.clone(), stored], "{flags:?} {rights:?} {forced}");
        let (first, kept) = if is_stored { ([9, 9, 9, 0], [9, 9, 9, 0]) } else { ([0; 4], [7, 0, 0, 0]) };
        assert_eq!(said[8..], [first, first, kept].map(|bytes| Some(bytes.to_vec())));
    }
}

#[test]
fn a_copy_ends_where_the_first_page_refuses_it() {
    let len = 2 * PAGE as usize;
    let steps = [Call(map(0..4, RW)), Call(unmap(2..3)), load(0, 4 * PAGE as usize), load(2, 1)];
    let said = answers(&[&steps[..], &[Store { addr: page(1) - 1, len, byte: 5, forced: true }]].concat());
    let copied: Vec<_> = said.iter().map(|answer| answer.as_ref().map(Vec::len)).collect();
    assert_eq!(copied, [None, None, Some(len), None, Some(PAGE as usize + 1)]);
}

/// Random calls and copies on a few pages.
#[test]
fn copies_among_random_calls_are_those_of_linux() {
    const PAGES: u64 = 6;
    for seed in 0..if oracle().is_some() { 60 } else { 5 } {
        let mut rng = Rng::new(seed);
        let steps: Vec<_> = (0..40).map(|_| step(&mut rng, PAGES)).collect();
        answers(&steps);
    }
}

fn step(rng: &mut Rng, pages: u64) -> RemoteStep {
    let first = rng.below(pages);
    let some = first..first + 1 + rng.below(pages - first);
    let rights = rng.pick(&[NONE, R, RW, RW]);
    let len = rng.pick(&[1, 100, PAGE as usize, 3 * PAGE as usize]);
    let (addr, byte) = (page(first) + rng.pick(&[0, 1, PAGE - 1]), 1 + rng.below(250) as u8);
    match rng.below(10) {
        0 => Call(map_as(some, rights, rng.pick(&[PRIVATE, PRIVATE, SHARED]))),
        1 => Call(protect(some, rights)),
        2 => Call(advise(some, advice::DONTNEED)),
        3 => Call(if rng.chance(1, 3) { unmap(some) } else { read(first) }),
        4 => Call(write(first)),
        5 | 6 => Load { addr, len },
        7 => Store { addr, len, byte, forced: false },
        _ => Store { addr, len, byte, forced: true },
    }
}
