//! Every pair of operations that commute, at every distance: the lines that they share are known, and faults
//! apart from each other share none.

use interleaf_check::conflicts::matrix::{Cell, Distance, FIELDS, NEIGHBOURS, Operation, Report, play};
use std::collections::BTreeSet;

/// States of each pair and distance. `interleaf check conflicts` plays more; `cargo xtask soak conflicts`
/// many.
const STATES: u64 = 2;

#[test]
fn pairs_that_commute_share_only_lines_that_are_known() {
    let cells = play(|_| true, STATES, 0, |_| {});
    let report = Report::of(&cells, STATES, 0);
    println!("{}", report.text(&cells));
    assert_eq!(cells.len(), Operation::pairs().count() * Distance::ALL.len());
    assert!(report.new.is_empty(), "{:#?}", report.new);
    let commuting = cells.iter().filter(|cell| cell.states > 0).count();
    assert!(commuting * 10 > cells.len() * 8, "{commuting} of {} commute in some state", cells.len());
}

/// More states than of other pairs: this is what all else is for. No word is shared in any; that two records
/// are neighbours on a line may happen where a batch of frames of one CPU ends and one of the other's begins.
#[test]
fn first_touches_apart_from_each_other_share_no_line_where_tables_are_linked() {
    let apart = [Distance::Tables, Distance::Giant, Distance::OtherSpace];
    let pairs = Operation::pairs().filter(|pair| pair.iter().all(|operation| operation.is_first_touch()));
    let cells = pairs.flat_map(|pair| apart.map(|distance| Cell::play(pair, distance, 60, 1000)));
    let (mut states, mut beside) = (0, 0);
    for cell in cells {
        assert!(cell.lines.keys().all(|name| name == NEIGHBOURS), "{cell:#?}");
        (states, beside) = (states + cell.states, beside + cell.states - cell.free);
    }
    assert_eq!(states, 9 * 60);
    assert!(beside * 50 <= states, "{beside} of {states} states share a line of records");
}

/// A negative control: what must be shared is seen.
#[test]
fn calls_in_one_space_and_faults_in_one_table_are_seen_to_share_lines() {
    let shares = |pair, distance, field: &str| {
        let cell = Cell::play(pair, distance, 10, 0);
        assert!(cell.lines.keys().any(|name| name.contains(field)), "{field}: {cell:#?}");
        assert!(cell.lines.values().all(|shared| shared.sites.iter().all(|site| site.contains(".rs:"))));
    };
    shares([Operation::Map, Operation::Unmap], Distance::Giant, "the space's lock");
    shares([Operation::Write, Operation::Write], Distance::SameTable, "the lock of a table");
}

#[test]
fn each_field_has_a_letter_of_its_own_and_a_reason() {
    let letters: BTreeSet<char> = FIELDS.iter().map(|field| field.letter).collect();
    assert_eq!(letters.len(), FIELDS.len());
    assert!(FIELDS.iter().all(|field| !field.reason.is_empty()));
}
