use super::*;
use crate::measure::Options;

#[test]
fn every_section_shows_a_figure_or_text() {
    for section in SECTIONS {
        let shown = section.show(&Options::small()).unwrap_or_else(|e| panic!("{}: {e}", section.title));
        assert!(!shown.figures.is_empty() || !shown.text.is_empty(), "{} shows nothing", section.title);
    }
}
