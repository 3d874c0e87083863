//! Plays a family: its spaces on one CPU, each in its turns.

use super::fault_counts::FaultCounts;
use super::life::{Family, Then};
use super::player::Player;
use super::setup::ReplayMachine;
use interleaf::space::AddressSpace;

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

/// Plays a family on the CPU that the caller has entered. `first` is the space that exec made.
///
/// # Errors
/// One line: there is no memory for a fork.
pub fn play<'v>(
    family: &Family,
    machine: &ReplayMachine,
    first: AddressSpace<'v, ReplayMachine>,
    stack_limit: Option<u64>,
    counts: &FaultCounts,
    visitor: &mut impl Visitor,
) -> Result<(), String> {
    let mut spaces: Vec<Option<AddressSpace<'v, ReplayMachine>>> = Vec::new();
    spaces.resize_with(family.lives.len(), || None);
    spaces[0] = Some(first);
    for turn in &family.turns {
        let life = turn.life;
        let mut born = None;
        {
            let space = spaces[life].as_ref().expect("a space lives until its last turn");
            let _running = space.activate(None);
            let player = Player::new(machine, space, &spaces, counts, stack_limit);
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
            spaces[child] = Some(space);
        }
        if turn.then == Then::End {
            spaces[life] = None;
        }
    }
    Ok(())
}
