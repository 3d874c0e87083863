use super::*;
use crate::measure::bench::Verdict;

const CONSOLE: &str = "booting\r\ncount null_call 50.25\r\ncount zeroing 513.00\ncount write_fault 900.5\n\
    count read_fault 401\ncount unmap_page 250\nnoise\ncount unmap_zero_page 60\ncount map_unmap_mib 3999\n\
    count copying_bytes 4097\ncount copy_on_write 4400\ncount reuse 9999\n";

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
            (303.0, None),
            (9_999.0, None),
            (3_999.0, yes),
            (50.25, yes)
        ]
    );
    assert!(figures.iter().all(|f| f.name.ends_with("_locked") && f.yardstick == Some("Linux 6.1")));
}

#[test]
fn a_line_that_lacks_is_named() {
    let cut = CONSOLE.replace("zeroing", "other");
    assert!(figures(FaultPath::Speculative, &cut).unwrap_err().contains("zeroing"));
    assert!(counted("count x 1e", "x").is_err() && counted("count xy 1", "x").is_err());
    assert!(counted("count x NaN", "x").is_err());
}
