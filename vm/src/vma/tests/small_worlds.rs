//! Every call on every world of six pages, compared with a model of single pages.

use super::picture::{ORIGIN, letter, mapping, pages, parse};
use super::world::World;
use crate::units::{Vpn, VpnRange};
use crate::vma::{AnonId, VmaAttributes, VmaFlags, joins, merge};
use std::string::String;
use std::vec::Vec;

const PAGES: u64 = 6;
const R: VmaFlags = VmaFlags::READ;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Every picture of `len` pages drawn with these characters.
fn every_picture(characters: &str, len: u64) -> Vec<String> {
    (0..len).fold(std::vec![String::new()], |shorter, _| {
        let longer = |picture: String| characters.chars().map(move |c| std::format!("{picture}{c}"));
        shorter.into_iter().flat_map(longer).collect()
    })
}

fn every_range(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len).flat_map(move |from| (from + 1..=len).map(move |to| (from, to)))
}

/// Letter and identity of each page.
fn page_by_page(world: &World, len: u64) -> Vec<Option<(char, AnonId)>> {
    let at = |page| world.list.iter().find(|attributes| attributes.range.contains(Vpn(ORIGIN + page)));
    (0..len).map(|page| at(page).map(|attributes| (letter(attributes), attributes.anon))).collect()
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Map(char),
    Unmap,
    Protect(VmaFlags),
}

impl Call {
    fn apply(self, world: &mut World, range: VpnRange) {
        match self {
            Call::Map(letter) => world.map(mapping(letter, range)),
            Call::Unmap => world.unmap(range),
            Call::Protect(access) => drop(world.protect(range, access)),
        }
        world.check();
    }

    /// Its effect on one page, given by letter and identity; `None` stops the call.
    fn of_page(self, page: Option<(char, AnonId)>) -> Option<Option<(char, AnonId)>> {
        let fresh = |letter| Some((letter, AnonId::NONE));
        match self {
            Call::Map(letter) => Some(fresh(letter)),
            Call::Unmap => Some(None),
            Call::Protect(access) => page.map(|(letter, anon)| {
                let kept = if anon.is_none() && letter != 'k' { 'r' } else { 'k' };
                let kept = if letter == 'r' { 'r' } else { kept };
                Some((if access == RW { 'w' } else { kept }, anon))
            }),
        }
    }
}

const CALLS: [Call; 5] = [Call::Map('r'), Call::Map('w'), Call::Unmap, Call::Protect(R), Call::Protect(RW)];

/// The pages after a call, page by page, without identities taken from neighbours.
fn model(before: &[Option<(char, AnonId)>], call: Call, from: u64, to: u64) -> Vec<Option<(char, AnonId)>> {
    let mut pages = before.to_vec();
    for page in &mut pages[from as usize..to as usize] {
        match call.of_page(*page) {
            Some(after) => *page = after,
            None => break,
        }
    }
    pages
}

#[test]
fn every_call_on_every_untouched_world_leaves_one_mapping_for_each_run_of_equal_pages() {
    for picture in every_picture(".rw", PAGES) {
        let world = World::new(&picture, &".".repeat(PAGES as usize));
        let before = page_by_page(&world, PAGES);
        for (from, to) in every_range(PAGES) {
            for call in CALLS {
                let mut world = world.clone();
                call.apply(&mut world, pages(from, to));
                let after = model(&before, call, from, to);
                let drawn: String = after.iter().map(|page| page.map_or('.', |page| page.0)).collect();
                assert_eq!(
                    world.list,
                    World::new(&drawn, &".".repeat(PAGES as usize)).list,
                    "{call:?} of {from}..{to} on {picture}"
                );
            }
        }
    }
}

/// All worlds of four pages with identities and with boundaries between equal neighbours.
fn every_divided_world() -> impl Iterator<Item = World> {
    let len = 4;
    every_picture(".rkw", len).into_iter().flat_map(move |letters| {
        every_picture(".12a", len).into_iter().flat_map(move |identities| {
            let holes_are_bare = letters.chars().zip(identities.chars()).all(|(a, i)| a != '.' || i == '.');
            let letters = letters.clone();
            let cuts = if holes_are_bare { 0..1 << (len - 1) } else { 0..0 };
            cuts.filter_map(move |cuts: u32| {
                let mut world = World::new(&letters, &identities);
                let joined = world.list.len();
                (1..len).filter(|at| cuts >> (at - 1) & 1 == 1).for_each(|at| world.split(Vpn(ORIGIN + at)));
                (world.list.len() - joined == cuts.count_ones() as usize).then_some(world)
            })
        })
    })
}

#[test]
fn every_call_on_every_divided_world_changes_pages_as_the_model_and_joins_only_pages_that_it_touched() {
    for world in every_divided_world() {
        let before = page_by_page(&world, 4);
        for (from, to) in every_range(4) {
            for call in CALLS {
                let mut after = world.clone();
                call.apply(&mut after, pages(from, to));
                let expected = model(&before, call, from, to);
                let found = page_by_page(&after, 4);
                let context = || std::format!("{call:?} of {from}..{to} on {:?}", world.list);
                for (page, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    check_page(*expected, *found, &after, Vpn(ORIGIN + page as u64), context);
                }
                check_far_boundaries(&world, &after, pages(from, to), context);
            }
        }
    }
}

/// The attributes are the model's, and an identity is kept; a page without one may get that of the mapping
/// that it was joined with, but never an inherited one.
fn check_page(
    expected: Option<(char, AnonId)>,
    found: Option<(char, AnonId)>,
    world: &World,
    vpn: Vpn,
    context: impl Fn() -> String,
) {
    assert_eq!(expected.map(|e| e.0), found.map(|f| f.0), "{vpn:?} after {}", context());
    let (Some((_, was)), Some((_, is))) = (expected, found) else { return };
    let holder = world.list.iter().find(|attributes| attributes.range.contains(vpn)).unwrap();
    let joined = holder.range.len() > 1 && was.is_none() && !is.is_inherited();
    assert!(was == is || joined, "{vpn:?} was {was:?}, is {is:?} after {}", context());
}

/// Boundaries that the range does not reach stay where they were.
fn check_far_boundaries(before: &World, after: &World, range: VpnRange, context: impl Fn() -> String) {
    let boundaries = |list: &[VmaAttributes]| -> Vec<Vpn> {
        let far = |two: &[VmaAttributes]| two[0].range.end < range.start || two[0].range.end > range.end;
        let touching = list.windows(2).filter(|two| two[0].range.end == two[1].range.start);
        touching.filter(|two| far(two)).map(|two| two[0].range.end).collect()
    };
    assert_eq!(boundaries(&before.list), boundaries(&after.list), "{}", context());
}

#[test]
fn three_mappings_joined_at_once_are_joined_one_by_one_in_either_order() {
    for letters in every_picture("rw", 3) {
        for identities in every_picture(".12a", 3) {
            let one = |page: usize| {
                let piece = parse(&letters[page..=page], &identities[page..=page])[0];
                let range = pages(page as u64, page as u64 + 1);
                VmaAttributes { range, offset: range.start.0, ..piece }
            };
            let (prev, piece, next) = (one(0), one(1), one(2));
            let merged = merge(Some(prev), piece, Some(next));
            let with_prev = merge(Some(prev), piece, None);
            let with_next = merge(None, piece, Some(next));
            if merged.absorbs_prev && merged.absorbs_next {
                assert_eq!(merge(Some(with_prev.attributes), next, None).attributes, merged.attributes);
                assert_eq!(merge(None, prev, Some(with_next.attributes)).attributes, merged.attributes);
            } else if merged.absorbs_prev {
                assert_eq!(merged.attributes, with_prev.attributes);
                assert!(!joins(&merged.attributes, &next), "left wins only if not both can be joined");
            } else {
                assert_eq!(
                    (merged.absorbs_next, merged.attributes),
                    (with_next.absorbs_next, with_next.attributes)
                );
            }
        }
    }
}
