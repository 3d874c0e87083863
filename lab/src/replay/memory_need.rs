//! How much memory a family needs at most at one time.

use super::life::{Family, Then};
use super::step::{CallStep, Step, Steps};
use std::collections::HashSet;

/// Pages of a table of leaves.
const TABLE_PAGES: u64 = 512;
/// Mappings whose records and index nodes a frame holds, at least.
const MAPPINGS_PER_FRAME: u64 = 16;

/// Frames for the tables and records that every space has.
const SPACE_FRAMES: u64 = 8;

/// Frames for pages, and for the tables and records that a fork copies, of all spaces that are alive at one
/// time; at the time when it is most. Tables and records of what a space touches itself are not counted.
///
/// What a space leaves behind may live on in those that were forked from it, so it counts until they have
/// ended too. Where memory may be huge, each table's worth that is touched counts whole.
pub fn frames_at_once(family: &Family, may_be_huge: bool) -> u64 {
    let lives = family.lives.len();
    let mut need = Need {
        own: family
            .each()
            .map(|(life, steps)| SpaceNeed::of(life.start.mappings.len(), steps, may_be_huge))
            .collect(),
        parents: vec![None; lives],
        alive: vec![0; lives],
        counted: vec![0; lives],
        now: 0,
        most: 0,
    };
    need.begin(0);
    for turn in &family.turns {
        match turn.then {
            Then::Switch => {}
            Then::Fork(child) => {
                need.inherit(turn.life, child);
                need.begin(child);
            }
            Then::End => need.end(turn.life),
        }
    }
    need.most
}

/// What one space has.
#[derive(Clone, Copy, Debug)]
struct SpaceNeed {
    pages: u64,
    tables: u64,
    mappings: u64,
    /// Frames for what a fork copied.
    inherited: u64,
}

impl SpaceNeed {
    fn of(mappings: usize, steps: &Steps, may_be_huge: bool) -> SpaceNeed {
        let mut touched = HashSet::new();
        let mut tables = HashSet::new();
        for step in &steps.steps {
            if let Step::Touch { addr, .. } = step {
                touched.insert(addr.vpn());
                tables.insert(addr.vpn().0 / TABLE_PAGES);
            }
        }
        let populated = steps.calls.iter().fold(0_u64, |sum, call| sum.saturating_add(filled_pages(call)));
        let touched = if may_be_huge { tables.len() as u64 * TABLE_PAGES } else { touched.len() as u64 };
        SpaceNeed {
            pages: populated.saturating_add(touched),
            tables: (populated / TABLE_PAGES).saturating_add((tables.len() + 2 * steps.calls.len()) as u64),
            mappings: (mappings + 2 * steps.calls.len()) as u64,
            inherited: 0,
        }
    }
}

/// Pages that a call fills: a collapse fills those of its range that are absent.
fn filled_pages(call: &CallStep) -> u64 {
    call.populated_pages().saturating_add(call.collapsed_pages())
}

struct Need {
    own: Vec<SpaceNeed>,
    parents: Vec<Option<usize>>,
    /// Spaces that are alive, of each and those forked from it.
    alive: Vec<u32>,
    counted: Vec<u64>,
    now: u64,
    most: u64,
}

impl Need {
    fn inherit(&mut self, parent: usize, child: usize) {
        self.parents[child] = Some(parent);
        let SpaceNeed { tables, mappings, .. } = self.own[parent];
        let own = &mut self.own[child];
        // Above the tables of leaves there are two more for each at most.
        own.inherited = tables.saturating_mul(3).saturating_add(mappings / MAPPINGS_PER_FRAME);
        own.tables = own.tables.saturating_add(tables);
        own.mappings = own.mappings.saturating_add(mappings);
    }

    fn begin(&mut self, life: usize) {
        let SpaceNeed { pages, inherited, .. } = self.own[life];
        self.counted[life] = pages.saturating_add(inherited).saturating_add(SPACE_FRAMES);
        self.now = self.now.saturating_add(self.counted[life]);
        self.most = self.most.max(self.now);
        self.each_upwards(life, |need, at| need.alive[at] += 1);
    }

    fn end(&mut self, life: usize) {
        self.each_upwards(life, |need, at| {
            need.alive[at] -= 1;
            if need.alive[at] == 0 {
                need.now = need.now.saturating_sub(need.counted[at]);
            }
        });
    }

    /// Passes a life and those whose forks lead to it.
    fn each_upwards(&mut self, life: usize, f: impl Fn(&mut Need, usize)) {
        let mut next = Some(life);
        while let Some(at) = next {
            f(self, at);
            next = self.parents[at];
        }
    }
}
