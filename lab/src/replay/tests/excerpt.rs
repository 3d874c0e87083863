use super::*;
use crate::replay::ResidentLife;

fn life(pid: u32, events: u64, unexplained: u64) -> LifeReport {
    let (program, end) =
        (if pid.is_multiple_of(3) { "sort" } else { "sh" }.to_string(), "its exit".to_string());
    let (forked_from, resident) = (Some(1), ResidentLife::default());
    LifeReport { pid, program, forked_from, events, end, unexplained, resident }
}

#[test]
fn five_hundred_processes_are_a_summary() {
    let mut all: Vec<LifeReport> = (0..500).map(|pid| life(pid + 10, u64::from(pid), 0)).collect();
    all[7].unexplained = 1;
    let text = lives(&all);
    let events: i64 = (0..500).sum::<i64>() - (481..500).sum::<i64>() - 7;
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.contains("\n  17 "), "the one that differs has a row: {text}");
    let said = format!("and 480 other address spaces with {} events: 320 sh, 160 sort", grouped(events));
    assert!(text.contains(&said), "{said}\n{text}");
}

#[test]
fn a_few_processes_have_a_row_each() {
    let all: Vec<LifeReport> = (0..20).map(|pid| life(pid + 10, 1, 0)).collect();
    assert_eq!(lives(&all).lines().count(), 21);
}

#[test]
fn of_a_long_map_the_lines_that_differ_are_shown() {
    let lines: Vec<String> = (0..60_000).map(|n| format!("{n}-{} rw-p", n + 1)).collect();
    let mut other = lines.clone();
    other[30_000] = "30000-30001 r--p".to_string();
    let shown = map(&lines, &other);
    assert_eq!(shown[0], "30000-30001 rw-p");
    assert_eq!(shown.len(), 2);
    assert_eq!(map(&lines[..50], &other).len(), 50);
}
