//! Every section of the tour, at small size.

use interleaf_lab::cli::understands;
use interleaf_lab::measure::Options;
use interleaf_lab::measure::tour::{NEXT, SECTIONS};

#[test]
fn every_section_shows_a_figure_or_text() {
    for section in SECTIONS {
        let shown = section.show(&Options::small()).unwrap_or_else(|e| panic!("{}: {e}", section.title));
        assert!(!shown.figures.is_empty() || !shown.text.is_empty(), "{} shows nothing", section.title);
    }
}

#[test]
fn the_garbage_of_a_sections_machines_is_shown() {
    let replay = SECTIONS.last().expect("sections");
    assert!(replay.command.starts_with("interleaf replay"), "{}", replay.command);
    let shown = replay.show(&Options::small()).unwrap();
    assert!(shown.text.contains("garbage at its peak: "), "{}", shown.text);
}

#[test]
fn every_command_that_the_tour_names_is_understood() {
    let named = SECTIONS.iter().map(|s| s.command).chain(NEXT.iter().map(|n| n.0));
    for line in named {
        assert!(understands(line), "`{line}` is no command");
    }
}
