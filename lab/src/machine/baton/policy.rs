//! How a seed chooses the CPU that runs.
//!
//! Bugs differ in the schedules that expose them: some need a switch at every access, some need one CPU
//! stopped at one place for a long time. So the seed first draws a policy and then follows it: *random*
//! policies switch with a chance between one in two and one in 96 at each step; *ranked* ones always run the
//! highest CPU that can, and lower its rank at rare random steps. Under either a CPU that waits yields.

use crate::machine::fibers::Random;

/// Whether the CPU that runs could as well go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwitchHint {
    /// It can.
    Stay,
    /// It waits: others should run.
    Yield,
}

#[derive(Clone, Debug)]
enum Order {
    Random {
        switch_one_in: usize,
    },
    Ranked {
        /// Rank of each CPU, the highest runs.
        ranks: Vec<i64>,
        lower_one_in: usize,
        /// Below every rank so far.
        floor: i64,
    },
}

/// What a seed has decided.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    random: Random,
    order: Order,
    /// An interrupt is handled at a step with a chance of one in this number; 0: only where the CPU asks.
    interrupt_one_in: usize,
}

impl Policy {
    pub(super) fn new(seed: u64, nr_cpus: usize) -> Self {
        let mut random = Random::new(seed);
        let order = if random.one_in(4) {
            let mut ranks: Vec<i64> = (0..nr_cpus as i64).collect();
            for i in (1..ranks.len()).rev() {
                ranks.swap(i, random.below(i + 1));
            }
            Order::Ranked { ranks, lower_one_in: [4, 8, 16, 64][random.below(4)], floor: 0 }
        } else {
            Order::Random { switch_one_in: [2, 2, 3, 4, 8, 24, 96][random.below(7)] }
        };
        let interrupt_one_in = [0, 1, 4, 32][random.below(4)];
        Self { random, order, interrupt_one_in }
    }

    /// Chooses among the CPUs that can run, in ascending order, at least one; `me` runs now.
    pub(super) fn choose(&mut self, ready: &[usize], me: usize, hint: SwitchHint) -> usize {
        let can_stay = ready.contains(&me);
        match &mut self.order {
            Order::Random { switch_one_in } => {
                if can_stay && hint == SwitchHint::Stay && !self.random.one_in(*switch_one_in) {
                    return me;
                }
                let others = ready.len() - usize::from(can_stay && hint == SwitchHint::Yield);
                if others == 0 {
                    return me;
                }
                let at = self.random.below(others);
                let skips_me = hint == SwitchHint::Yield && can_stay;
                *ready.iter().filter(|&&cpu| !(skips_me && cpu == me)).nth(at).expect("fewer than there are")
            }
            Order::Ranked { ranks, lower_one_in, floor } => {
                if hint == SwitchHint::Yield || self.random.one_in(*lower_one_in) {
                    *floor -= 1;
                    ranks[me] = *floor;
                }
                *ready.iter().max_by_key(|&&cpu| ranks[cpu]).expect("a CPU can run")
            }
        }
    }

    /// One of `n` things.
    pub(super) fn pick(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    /// Whether a pending interrupt is handled at this step, though the CPU did not ask.
    pub(super) fn interrupts_now(&mut self) -> bool {
        self.interrupt_one_in != 0 && self.random.one_in(self.interrupt_one_in)
    }
}

#[cfg(test)]
#[path = "tests/policy.rs"]
mod tests;
