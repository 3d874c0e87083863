//! The reader-writer lock is phase-fair, whatever the schedule: the lock itself counts, and asserts in builds
//! with debug assertions, how often the other side was granted the lock between a request and its own grant.

use interleaf_check::fairness::longest_waits;

#[test]
fn a_reader_waits_for_one_writer_and_a_writer_for_one_phase_of_readers_for_each_ahead() {
    let (summary, longest) = longest_waits(0..1000).unwrap_or_else(|report| panic!("{report}"));
    assert!(summary.seeds == 1000 && summary.switches > 10_000, "{summary:?}");
    // Both waits occur, and neither is longer.
    assert_eq!((longest.writers_before_reader, longest.phases_before_writer), (1, 1));
}
