//! Where a page is found, on every level. For writers, who hold the lock that keeps nodes in place.

use super::node::{IndexNode, VACANT};
use super::{MAX_HEIGHT, Root};
use crate::machine::Cpu;

/// A node of each level, from the root down, and the slot in it through which the next one is reached.
pub(super) struct Path<'a, C: Cpu, const F: usize> {
    steps: [Option<Step<'a, C, F>>; MAX_HEIGHT],
    height: usize,
}

/// A node, and a slot of it.
pub(super) struct Step<'a, C: Cpu, const F: usize> {
    pub node: &'a IndexNode<C, F>,
    pub at: usize,
}

impl<C: Cpu, const F: usize> Clone for Step<'_, C, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Cpu, const F: usize> Copy for Step<'_, C, F> {}

impl<C: Cpu, const F: usize> Clone for Path<'_, C, F> {
    fn clone(&self) -> Self {
        Self { steps: self.steps, height: self.height }
    }
}

impl<'a, C: Cpu, const F: usize> Path<'a, C, F> {
    /// The path to the leaf that answers for `page`; its slot there is the one before which `page` would go.
    pub(super) fn to(root: Root<'a, C, F>, page: u64) -> Self {
        let page = page.min(VACANT - 1);
        let mut path = Self { steps: [None; MAX_HEIGHT], height: root.height };
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            let at = node.child_of(page);
            path.steps[level] = Some(Step { node, at });
            // SAFETY: an inner node's slots up to the page's hold children, and the writers' lock is held.
            node = unsafe { node.child(at) };
        }
        path.steps[0] = Some(Step { node, at: node.rank(page) });
        path
    }

    /// The root's level; leaves are on level 0.
    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// The step of a level up to the root's.
    pub(super) fn step(&self, level: usize) -> Step<'a, C, F> {
        self.steps[level].expect("the path has a step on every level up to the root")
    }

    /// The node of a level.
    pub(super) fn node(&self, level: usize) -> &'a IndexNode<C, F> {
        self.step(level).node
    }

    /// The first page that the node of `level` answers for.
    pub(super) fn low(&self, level: usize) -> u64 {
        let above = (level + 1..=self.height).map(|level| self.step(level));
        above.into_iter().find(|step| step.at > 0).map_or(0, |step| step.node.key(step.at))
    }

    /// Whether the node of `level` is the first of its level.
    pub(super) fn is_first(&self, level: usize) -> bool {
        (level + 1..=self.height).all(|above| self.step(above).at == 0)
    }

    /// Whether the node of `level` is the last of its level.
    pub(super) fn is_last(&self, level: usize) -> bool {
        (level + 1..=self.height).map(|above| self.step(above)).all(|step| step.at + 1 == step.node.count())
    }

    /// Goes to the node before the one of `level`, unless it is the first of its level. Lower levels are left
    /// behind.
    pub(super) fn go_left(&mut self, level: usize) -> bool {
        self.go(level, |step| step.at.checked_sub(1), |node| node.count() - 1)
    }

    /// Goes to the node after the one of `level`, unless it is the last of its level. Lower levels are left
    /// behind.
    pub(super) fn go_right(&mut self, level: usize) -> bool {
        self.go(level, |step| Some(step.at + 1).filter(|&at| at < step.node.count()), |_| 0)
    }

    fn go(
        &mut self,
        level: usize,
        aside: impl Fn(Step<'a, C, F>) -> Option<usize>,
        edge: impl Fn(&IndexNode<C, F>) -> usize,
    ) -> bool {
        let turn = (level + 1..=self.height).find_map(|l| Some((l, aside(self.step(l))?)));
        let Some((turn, at)) = turn else { return false };
        self.steps[turn] = Some(Step { node: self.node(turn), at });
        for below in (level..turn).rev() {
            let Step { node, at } = self.step(below + 1);
            // SAFETY: `at` is a slot in use of an inner node, and the writers' lock is held.
            let node = unsafe { node.child(at) };
            self.steps[below] = Some(Step { node, at: if below == level { 0 } else { edge(node) } });
        }
        true
    }
}
