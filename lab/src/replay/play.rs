//! Plays a family: its spaces on one CPU, each in its turns.

use super::fault_counts::FaultCounts;
use super::life::{Family, Then};
use super::objects::Objects;
use super::player::Player;
use super::setup::ReplayMachine;
use interleaf::space::AddressSpace;
use std::collections::BTreeSet;

/// What is done beside the play, or instead of its single steps.
pub trait Visitor {
    /// Plays the step at `at` of a life.
    fn step(&mut self, life: usize, at: usize, player: &Player<'_, '_>);

    /// The last step of a life was a fork, which has made the space of `child`.
    fn forked(&mut self, life: usize, child: usize, player: &Player<'_, '_>) {
        let _nothing = (life, child, player);
    }

    /// The CPU leaves the space of a life.
    fn switch(&mut self, life: usize, player: &Player<'_, '_>) {
        let _nothing = (life, player);
    }

    /// The space of a life is about to end.
    fn end(&mut self, life: usize, player: &Player<'_, '_>) {
        let _nothing = (life, player);
    }
}

/// The spaces of a family.
pub struct Spaces<'v> {
    /// That of each life, from its beginning to its end.
    of_lives: Vec<Option<AddressSpace<'v, ReplayMachine>>>,
    /// The lives that have begun and not ended.
    alive: BTreeSet<usize>,
}

impl<'v> Spaces<'v> {
    fn new(lives: usize, first: AddressSpace<'v, ReplayMachine>) -> Self {
        let mut of_lives = Vec::new();
        of_lives.resize_with(lives, || None);
        let mut spaces = Spaces { of_lives, alive: BTreeSet::new() };
        spaces.begin(0, first);
        spaces
    }

    fn begin(&mut self, life: usize, space: AddressSpace<'v, ReplayMachine>) {
        self.of_lives[life] = Some(space);
        self.alive.insert(life);
    }

    fn end(&mut self, life: usize) {
        self.of_lives[life] = None;
        self.alive.remove(&life);
    }

    /// Those that there are now.
    pub fn alive(&self) -> impl Iterator<Item = &AddressSpace<'v, ReplayMachine>> {
        self.alive.iter().filter_map(|&life| self.of_lives[life].as_ref())
    }

    /// Whether there is more than one in the whole play.
    pub fn is_of_several(&self) -> bool {
        self.of_lives.len() > 1
    }
}

/// Plays a family on the CPU that the caller has entered. `first` is the space that exec made, of which
/// `objects` has the files.
///
/// # Errors
/// One line: there is no memory for a fork.
pub fn play<'v>(
    family: &Family,
    machine: &ReplayMachine,
    first: AddressSpace<'v, ReplayMachine>,
    stack_limit: Option<u64>,
    counts: &FaultCounts,
    objects: &Objects<'v>,
    visitor: &mut impl Visitor,
) -> Result<(), String> {
    let mut spaces = Spaces::new(family.lives.len(), first);
    for turn in &family.turns {
        let life = turn.life;
        let mut born = None;
        {
            let space = spaces.of_lives[life].as_ref().expect("a space lives until its last turn");
            let _running = space.activate(None);
            let player = Player::new(machine, space, &spaces, counts, objects, stack_limit);
            (turn.from..turn.to).for_each(|at| visitor.step(life, at, &player));
            match turn.then {
                Then::Switch => visitor.switch(life, &player),
                Then::Fork(child) => {
                    let refused = |error| format!("fork of process {}: {error}", family.lives[life].pid);
                    born = Some((child, player.fork().map_err(refused)?));
                    visitor.forked(life, child, &player);
                }
                Then::End => visitor.end(life, &player),
            }
        }
        if let Some((child, space)) = born {
            spaces.begin(child, space);
        }
        if turn.then == Then::End {
            spaces.end(life);
        }
    }
    Ok(())
}
