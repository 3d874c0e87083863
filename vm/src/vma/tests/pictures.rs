//! The effect of calls on mappings, drawn: before, the call, after.

use super::picture::{mapping, pages, parse};
use super::world::{Hole, World};
use crate::vma::{AnonId, FlagAdvice, VmaAttributes, VmaFlags, reusable_anon};

const R: VmaFlags = VmaFlags::READ;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Maps `letter` over the range and compares the result.
#[track_caller]
fn map(before: [&str; 2], letter: char, from: u64, to: u64, after: [&str; 2]) {
    let mut world = World::new(before[0], before[1]);
    world.map(mapping(letter, pages(from, to)));
    world.shows(after[0], after[1]);
}

/// Changes access and compares the result.
#[track_caller]
fn protect(before: [&str; 2], access: VmaFlags, from: u64, to: u64, after: [&str; 2]) {
    let mut world = World::new(before[0], before[1]);
    world.protect(pages(from, to), access).unwrap();
    world.shows(after[0], after[1]);
}

#[test]
fn a_new_mapping_is_joined_with_equal_neighbours_that_it_touches() {
    map(["......", "......"], 'w', 2, 4, ["..ww..", "......"]);
    map(["ww....", "......"], 'w', 2, 4, ["wwww..", "......"]);
    map(["....ww", "......"], 'w', 2, 4, ["..wwww", "......"]);
    map(["ww..ww", "......"], 'w', 2, 4, ["wwwwww", "......"]);
    map(["ww...w", "......"], 'w', 2, 4, ["wwww.w", "......"]);
}

#[test]
fn other_attributes_keep_neighbours_apart() {
    for other in ['r', 'k', 'n', 'x', 'd', 'f', 'F', 's', 'm'] {
        let mut world = World::new("ww..ww", "......");
        world.map(VmaAttributes { anon: AnonId::new((other == 'm') as u64), ..mapping(other, pages(2, 4)) });
        assert_eq!(world.list.len(), 3, "{other} among w");
        assert_eq!(world.list[0], parse("ww", "..")[0]);
    }
}

#[test]
fn pages_of_a_file_are_joined_only_where_offsets_are_contiguous() {
    map(["ff..ff", "......"], 'f', 2, 4, ["ffffff", "......"]);
    map(["ff..gg", "......"], 'f', 2, 4, ["ffffgg", "......"]);
    map(["ff..gg", "......"], 'g', 2, 4, ["ffgggg", "......"]);
    map(["ss..ss", "......"], 's', 2, 4, ["ssssss", "......"]);
}

#[test]
fn identities_pass_to_a_new_mapping_and_conflict_across_it() {
    map(["ww..ww", "11...."], 'w', 2, 4, ["wwwwww", "111111"]);
    map(["ww..ww", "....11"], 'w', 2, 4, ["wwwwww", "111111"]);
    map(["ww..ww", "11..11"], 'w', 2, 4, ["wwwwww", "111111"]);
    // Either side agrees with it, but not with the other side: left wins.
    map(["ww..ww", "11..22"], 'w', 2, 4, ["wwwwww", "111122"]);
}

#[test]
fn an_inherited_identity_absorbs_no_mapping() {
    map(["ww..ww", "aa..aa"], 'w', 2, 4, ["wwwwww", "aa..aa"]);
    map(["ww..ww", "aa..11"], 'w', 2, 4, ["wwwwww", "aa1111"]);
    protect(["wwkk", "aaaa"], RW, 2, 4, ["wwww", "aaaa"]);
}

#[test]
fn mapping_over_others_replaces_them_and_joins_the_remainders() {
    map(["wwwwww", "111111"], 'r', 2, 4, ["wwrrww", "11..11"]);
    map(["wwwwww", "111111"], 'w', 2, 4, ["wwwwww", "111111"]);
    map(["rrrwww", "......"], 'w', 1, 3, ["rwwwww", "......"]);
    map(["r.w|w.", "...|.."], 'w', 0, 5, ["wwwww", "....."]);
}

#[test]
fn unmap_keeps_the_pages_outside_and_joins_nothing() {
    let mut world = World::new("wwwwrr", "1111..");
    world.unmap(pages(1, 3));
    world.shows("w..wrr", "1..1..");
    world.unmap(pages(0, 5));
    world.shows(".....r", "......");
    world.unmap(pages(0, 5));
    world.shows(".....r", "......");
}

#[test]
fn pieces_of_one_mapping_are_joined_again_across_a_refilled_hole() {
    let mut world = World::new("wwwwww", "111111");
    world.unmap(pages(2, 4));
    world.shows("ww..ww", "11..11");
    world.map(mapping('w', pages(2, 4)));
    world.shows("wwwwww", "111111");
}

#[test]
fn protect_of_a_middle_part_splits_into_three() {
    protect(["wwwwww", "......"], R, 2, 4, ["wwrrww", "......"]);
    protect(["wwwwww", "111111"], R, 2, 4, ["wwkkww", "111111"]);
    protect(["nnnn", "...."], R, 1, 2, ["nNnn", "...."]);
}

#[test]
fn protect_moves_the_boundary_to_a_neighbour_that_fits() {
    protect(["rrwwww", "......"], R, 2, 4, ["rrrrww", "......"]);
    protect(["wwwwrr", "......"], R, 2, 4, ["wwrrrr", "......"]);
    protect(["rrwwrr", "......"], R, 2, 4, ["rrrrrr", "......"]);
    protect(["rr.wwr", "......"], R, 3, 4, ["rr.rwr", "......"]);
}

#[test]
fn a_part_brings_its_identity_to_the_neighbour_that_grows() {
    protect(["kkwwww", "..1111"], R, 2, 4, ["kkkkww", "111111"]);
    protect(["wwwwkk", "1111.."], R, 2, 4, ["wwkkkk", "111111"]);
    protect(["kkwwkk", "..11.."], R, 2, 4, ["kkkkkk", "111111"]);
    protect(["kkwwkk", "11..22"], RW, 0, 2, ["wwwwkk", "111122"]);
    // The three identities conflict only across the part: left wins.
    protect(["wwrrww", "11..22"], RW, 2, 4, ["wwwwww", "111122"]);
    protect(["wwkkww", "112233"], RW, 2, 4, ["wwwwww", "112233"]);
}

#[test]
fn memory_once_written_stays_committed_and_apart_from_fresh_memory() {
    protect(["rrww", "..11"], R, 2, 4, ["rrkk", "..11"]);
    protect(["rrww", "...."], R, 2, 4, ["rrrr", "...."]);
    protect(["kkrr", "...."], RW, 2, 4, ["kkww", "...."]);
    protect(["rrFF", "...."], RW, 0, 2, ["wwFF", "...."]);
}

#[test]
fn unchanged_rights_join_nothing() {
    protect(["rr|rr", "..|.."], R, 0, 4, ["rr|rr", "..|.."]);
    protect(["rr|rrw", "..|..."], R, 2, 4, ["rr|rrw", "..|..."]);
}

#[test]
fn protect_goes_mapping_by_mapping_and_stops_at_a_hole() {
    protect(["rwxw", "...."], RW, 0, 4, ["wwww", "...."]);
    let mut world = World::new("rr.rr", ".....");
    assert_eq!(world.protect(pages(1, 5), RW), Err(Hole));
    world.shows("rw.rr", ".....");
}

#[test]
fn advice_splits_and_joins_as_rights_do() {
    let mut world = World::new("wwwwww", "......");
    world.advise(pages(2, 4), FlagAdvice::DontFork).unwrap();
    world.shows("wwddww", "......");
    world.advise(pages(0, 3), FlagAdvice::DontFork).unwrap();
    world.shows("ddddww", "......");
    world.advise(pages(0, 6), FlagAdvice::DoFork).unwrap();
    world.shows("wwwwww", "......");
}

#[test]
fn a_first_copy_takes_the_identity_of_an_alike_neighbour() {
    let reused = |letters, identities, at: usize| {
        let list = parse(letters, identities);
        reusable_anon(at.checked_sub(1).map(|b| list[b]), &list[at], list.get(at + 1).copied())
    };
    let id = |number| Some(AnonId::new(number));
    assert_eq!(reused("ww|ww|ww", "11|..|22", 1), id(2), "the next one's first");
    assert_eq!(reused("ww|ww|ww", "11|..|..", 1), id(1), "else the previous one's");
    assert_eq!(reused("kk|ww|..", "11|..|..", 1), id(1), "access rights may differ");
    assert_eq!(reused("rrww", "11..", 1), None, "ACCOUNT may not");
    assert_eq!(reused("nnww", "11..", 1), None);
    assert_eq!(reused("ddww", "11..", 1), None);
    assert_eq!(reused("ww.ww", "11...", 1), None, "they must touch");
    assert_eq!(reused("mmww", "11..", 1), None, "and have contiguous offsets");
    assert_eq!(reused("wwww", "aa..", 1), None, "an inherited one is not reused");
}

#[test]
fn a_first_copy_joins_nothing() {
    let mut world = World::new("ww|ww", "..|..");
    world.write(pages(2, 3).start);
    world.shows("wwww", "..99");
    world.write(pages(0, 1).start);
    world.shows("ww|ww", "99|99");
    world.advise(pages(0, 2), FlagAdvice::DontFork).unwrap();
    world.advise(pages(0, 2), FlagAdvice::DoFork).unwrap();
    world.shows("wwww", "9999");
}
