//! The ways in which jobs, and where their callers and helpers meet, are broken.

use super::By::{Model, Unit};
use super::Mutation;

/// All of them. Their numbers follow those of `list`.
pub const ALL: &[Mutation] = &[
    Mutation {
        name: "a thief leaves what it took",
        file: "vm/src/work/share.rs",
        old: "    Some((end - take..end, pack(&(start..end - take))))\n",
        new: "    Some((end - take..end, word))\n",
        by: Model("loom_a_share_loses_no_grain_and_gives_none_twice"),
    },
    Mutation {
        name: "undo is skipped",
        file: "vm/src/work/pool.rs",
        old: "        self.0.what.undo_if_stopped();\n",
        new: "",
        by: Unit("work::tests"),
    },
    Mutation {
        name: "what a chunk that failed did not do is undone all the same",
        file: "vm/src/work/run.rs",
        old: "        self.running.lose(self.chunk.done()..self.chunk.end);\n",
        new: "",
        by: Unit("work::tests"),
    },
    Mutation {
        name: "a caller returns while its work is visited",
        file: "vm/src/work/dispatch/word.rs",
        old: "    if state(word) == VISITED { None } else { Some(word & !(STATE | LENT | AGAIN) | KEPT) }\n",
        new: "    Some(word & !(STATE | LENT | AGAIN) | KEPT)\n",
        by: Model("loom_lent_work_is_left_before_it_is_taken_back"),
    },
    Mutation {
        name: "a caller returns while what it showed is visited",
        file: "vm/src/work/dispatch/desk.rs",
        old: "            self.wait_until_left(word, closed);\n",
        new: "",
        by: Model("loom_shown_work_is_left_before_it_is_taken_back"),
    },
    Mutation {
        name: "shown work is taken back under its visitor",
        file: "vm/src/work/dispatch/desk_word.rs",
        old: "    if is_visited(word) { None } else { Some(free(word)) }\n",
        new: "    Some(free(word))\n",
        by: Model("loom_what_is_shown_next_in_the_same_place_is_another_visit"),
    },
    Mutation {
        name: "a visitor leaves without release",
        file: "vm/src/work/dispatch/round.rs",
        old: "        self.work.ended.fetch_add(took_ns + VISIT, AcqRel);\n",
        new: "        self.work.ended.fetch_add(took_ns + VISIT, Relaxed);\n",
        by: Model("loom_shown_work_is_left_before_it_is_taken_back"),
    },
    Mutation {
        name: "a caller asks again without a fence",
        file: "vm/src/work/dispatch/desk.rs",
        old: "            fence::<C>(SeqCst);\n            self.board.invite",
        new: "            self.board.invite",
        by: Model("loom_what_goes_on_is_never_left_to_sleepers"),
    },
    Mutation {
        name: "a helper falls asleep without looking once more",
        file: "vm/src/work/dispatch/round.rs",
        old: "        if post_word::state(was) != post_word::IDLE || !self.is_wanted() {\n",
        new: "        if post_word::state(was) != post_word::IDLE || self.looks {\n",
        by: Model("loom_what_goes_on_is_never_left_to_sleepers"),
    },
    Mutation {
        name: "who finds work for more wakes nobody",
        file: "vm/src/work/dispatch/round.rs",
        old: "        self.board.see_that_somebody_looks(self.me);\n        // SAFETY",
        new: "        // SAFETY",
        by: Model("loom_who_finds_work_for_more_wakes_the_next"),
    },
    Mutation {
        name: "two thieves of one node both fill its share",
        file: "vm/src/work/share.rs",
        old: "        let begun = |word| (len(word) == 0 && word != FILLING).then_some(FILLING);\n",
        new: "        let begun = |word| (len(word) == 0).then_some(FILLING);\n",
        by: Model("loom_two_thieves_of_one_node_fill_its_share_one_at_a_time"),
    },
    Mutation {
        name: "how much is taken is asked twice",
        file: "vm/src/work/share.rs",
        old: "            let (grains, rest) = cut(word)?;\n",
        new: "            let (rest, grains) = (cut(word)?.1, cut(word)?.0);\n",
        by: Unit("work::share"),
    },
    Mutation {
        name: "a visit ends without release",
        file: "vm/src/work/dispatch/post.rs",
        old: "        if let Ok(was) = self.post.word.update(AcqRel, Acquire, end)\n",
        new: "        if let Ok(was) = self.post.word.update(Relaxed, Acquire, end)\n",
        by: Model("loom_lent_work_is_left_before_it_is_taken_back"),
    },
    Mutation {
        name: "a bell is not heard by who is on its way out",
        file: "vm/src/work/dispatch/word.rs",
        old: "        OFFERED | VISITED => Some(word | AGAIN),\n",
        new: "        OFFERED => Some(word | AGAIN),\n",
        by: Model("loom_a_helper_that_is_rung_for_looks_again"),
    },
    Mutation {
        name: "a bell for what is on offer orders nothing",
        file: "vm/src/work/dispatch/word.rs",
        old: "        OFFERED | VISITED => Some(word | AGAIN),\n",
        new: "        VISITED => Some(word | AGAIN),\n",
        by: Model("loom_a_helper_that_is_rung_for_looks_again"),
    },
    Mutation {
        name: "work is shown in a place that somebody is still at",
        file: "vm/src/work/dispatch/desk_word.rs",
        old: "    if word & KEPT == 0 { Some(turn",
        new: "    if word & SHOWN == 0 { Some(turn",
        by: Unit("work::dispatch::desk_word"),
    },
    Mutation {
        name: "a visitor looks too early whether its caller sleeps",
        file: "vm/src/work/dispatch/round.rs",
        old: "        fence::<C>(SeqCst);\n        if self.word.update(",
        new: "        if self.word.update(",
        by: Model("loom_shown_work_is_left_before_it_is_taken_back"),
    },
];
