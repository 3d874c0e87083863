use super::*;
use crate::measure::bench::Verdict;

const CONSOLE: &str = "booting\r\ncount null_call 50.25\r\ncount zeroing 513.00\ncount write_fault 900.5\n\
    count read_fault 401\ncount unmap_page 250\nnoise\ncount unmap_zero_page 60\ncount map_unmap_mib 3999\n\
    count zone_fault 950\ncount zone_unmap_page 260\ncount copying_bytes 4097\n\
    count copy_on_write 4400\ncount reuse 9999\n";

#[test]
fn every_operation_is_held_against_its_bar_by_its_own_value() {
    let figures = figures(FaultPath::Locked, CONSOLE).unwrap();
    let holds: Vec<_> = figures.iter().map(|f| (f.value, f.verdict)).collect();
    let yes = Some(Verdict::Yes);
    assert_eq!(
        holds,
        [
            (387.5, yes),
            (401.0, Some(Verdict::No)),
            (250.0, yes),
            (60.0, None),
            (437.0, None),
            (260.0, None),
            (303.0, None),
            (9_999.0, None),
            (3_999.0, yes),
            (50.25, yes)
        ]
    );
    assert!(figures.iter().all(|f| f.name.ends_with("_locked")));
    assert_eq!(figures.iter().filter(|f| f.yardstick == Some("Linux 6.1")).count(), 8);
}

#[test]
fn a_huge_fault_has_a_bar_and_zeroing_is_taken_off() {
    let console = "count zeroing_huge 262144.00\ncount huge_read_fault 451\ncount huge_write_fault 263000.5\n\
        count huge_unmap 2000\n";
    let figures = huge_figures(FaultPath::Speculative, console).unwrap();
    let found: Vec<_> = figures.iter().map(|f| (f.name, f.value, f.verdict)).collect();
    assert_eq!(
        found,
        [
            ("kernel.huge_read_fault", 451.0, Some(Verdict::No)),
            ("kernel.huge_write_fault", 856.5, None),
            ("kernel.huge_unmap", 2_000.0, None)
        ]
    );
    assert!(figures.iter().all(|f| f.yardstick.is_none()));
    assert!(huge_figures(FaultPath::Locked, CONSOLE).unwrap_err().contains("huge_read_fault"));
}

#[test]
fn a_line_that_lacks_is_named() {
    let cut = CONSOLE.replace("zeroing", "other");
    assert!(figures(FaultPath::Speculative, &cut).unwrap_err().contains("zeroing"));
    assert!(counted("count x 1e", "x").is_err() && counted("count xy 1", "x").is_err());
    assert!(counted("count x NaN", "x").is_err());
}
