//! A CPU that is parked goes on where it would have been.

use super::*;

/// Loads lines 7 and 9, 1 apart, then pauses 10; begins at 100.
fn park() -> Park {
    let mut round = LoopRound::NEW;
    round.look(7);
    round.look(9);
    Park { round, began: 100, pause: 10, gap: 1 }
}

/// The round in which CPU `cpu` loads the line for the first time after the write, one by one.
fn by_stepping(line: u32, cpu: u32, written: Ps, writer: u32) -> u64 {
    let place = if line == 7 { 1 } else { 2 };
    (0..).find(|&round| (110 + 12 * round + place, cpu) > (written, writer)).unwrap()
}

#[test]
fn the_round_that_meets_a_write_is_the_first_whose_load_comes_after_it() {
    for line in [7, 9] {
        for written in 90..200 {
            for (cpu, writer) in [(1, 2), (2, 1)] {
                let round = park().round_after_write(line, cpu, written, writer);
                assert_eq!(round, by_stepping(line, cpu, written, writer), "{line} {written} {cpu}");
            }
        }
    }
}

#[test]
fn rounds_are_counted_from_the_clock() {
    for round in 0..5 {
        assert_eq!(park().rounds_at(park().end_of(round)), round + 1);
        assert_eq!(park().round_before(park().end_of(round)), round);
        assert_eq!(park().round_before(park().end_of(round) + 11), round);
    }
    assert_eq!(park().round_before(3), 0);
}

#[test]
fn only_loads_of_different_lines_can_be_left_out() {
    let looks = |lines: &[u32]| {
        let mut round = LoopRound::NEW;
        lines.iter().for_each(|&line| round.look(line));
        round
    };
    assert_eq!(looks(&[1, 2]).repeatable(), Some(&[1, 2][..]));
    assert!(looks(&[]).repeatable().is_none() && looks(&[1, 2, 1]).repeatable().is_none());
    assert!(looks(&[1, 2, 3, 4, 5]).repeatable().is_none());
    let mut spoilt = looks(&[1]);
    spoilt.spoil();
    spoilt.look(1);
    assert!(spoilt.repeatable().is_none());
}
