//! The points of `work`: jobs, their dispatch, and ordered queues.

use super::Mutation;
use super::Test::{Model, Unit};

const JOBS: super::Test = Unit("work::tests::jobs");
const KEPT: super::Test = Unit("work::tests::preempted");
const LEFT: super::Test = Model("loom_published_work_is_left_before_its_caller_returns");
const PARKED: super::Test = Model("loom_published_work_is_never_left_to_parked_helpers");
const NOTIFIED: super::Test = Model("loom_a_worker_that_is_notified_visits_again");

/// All of them. Their numbers follow those of `list`.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "deque.theft-left-behind",
        wrong: "a thief leaves what it took",
        test: Model("loom_a_deque_loses_no_grain_and_gives_none_twice"),
    },
    Mutation { point: "job.undo-skipped", wrong: "undo is skipped", test: JOBS },
    Mutation {
        point: "job.break-off-not-noted",
        wrong: "what a chunk that failed did not do is undone all the same",
        test: JOBS,
    },
    Mutation {
        point: "job.joined-with-note",
        wrong: "a helper joins another job before its note of a broken-off chunk is read",
        test: JOBS,
    },
    Mutation {
        point: "job.note-not-freed",
        wrong: "a helper that has broken off a chunk never joins a job again",
        test: JOBS,
    },
    Mutation {
        point: "dispatch.visits-not-awaited",
        wrong: "a caller returns while its work is visited",
        test: LEFT,
    },
    Mutation {
        point: "dispatch.caller-not-woken",
        wrong: "the last helper to leave does not wake its caller",
        test: LEFT,
    },
    Mutation {
        point: "dispatch.closed-slot-joined",
        wrong: "a helper joins a slot that was closed since it looked",
        test: Model("loom_what_is_published_next_in_the_same_slot_is_visited_as_itself"),
    },
    Mutation {
        point: "dispatch.publish-fence-skipped",
        wrong: "a caller publishes without a fence",
        test: PARKED,
    },
    Mutation {
        point: "dispatch.park-without-look",
        wrong: "a helper parks without looking again",
        test: PARKED,
    },
    Mutation {
        point: "dispatch.notify-on-skipped",
        wrong: "a helper that joins work for more notifies no other",
        test: Model("loom_a_helper_that_joins_notifies_the_next_one"),
    },
    Mutation {
        point: "dispatch.visit-not-expedited",
        wrong: "a helper within a visit waits for all other threads of its CPU",
        test: Unit("space::tests::preempted_helper"),
    },
    Mutation {
        point: "dispatch.reserved-not-expedited",
        wrong: "so does one that an ordered queue has reserved",
        test: KEPT,
    },
    Mutation {
        point: "dispatch.dismissal-not-expedited",
        wrong: "so does one that is dismissed",
        test: KEPT,
    },
    Mutation { point: "dispatch.notify-relaxed", wrong: "a notification orders nothing", test: NOTIFIED },
    Mutation {
        point: "dispatch.notification-dropped",
        wrong: "a worker drops a notification that comes during its visit",
        test: NOTIFIED,
    },
    Mutation {
        point: "dispatch.notification-between-dropped",
        wrong: "a worker drops a notification that comes after its visit",
        test: Model("loom_a_notification_between_two_items_of_a_reserved_worker_is_not_lost"),
    },
    Mutation {
        point: "dispatch.detach-skipped",
        wrong: "a reserved worker that leaves does not say so",
        test: Model("loom_a_reserved_worker_that_is_dismissed_tells_its_caller"),
    },
    Mutation {
        point: "dispatch.room-not-announced",
        wrong: "helpers that the limit kept from work are not notified of room",
        test: Model("loom_a_helper_that_the_limit_kept_from_work_is_notified_when_there_is_room"),
    },
    Mutation {
        point: "dispatch.sleeps-though-notified",
        wrong: "a helper sleeps though it was notified since it looked",
        test: Model("loom_work_published_between_a_visit_and_a_sleep_is_visited"),
    },
    Mutation {
        point: "dispatch.room-fence-skipped",
        wrong: "room under the limit is announced without a fence",
        test: Model("loom_a_helper_that_parks_while_the_limit_is_raised_is_notified"),
    },
    Mutation {
        point: "dispatch.next-helper-awaited",
        wrong: "a dismissal waits for the next helper of the CPU to leave too",
        test: Model("loom_a_dismissal_ends_though_another_helper_comes_at_once"),
    },
];
