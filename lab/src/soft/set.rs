//! A direct-mapped set: one slot for each value of the low bits of a tag.

use interleaf::units::{Vpn, VpnRange};

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    tag: u64,
    /// The slot counts while this is the set's generation; 0 never is.
    generation: u32,
    value: Option<T>,
}

/// `N` slots for things that cover `1 << shift` pages each. A tag is a page number shifted right by that.
#[derive(Clone, Debug)]
pub(super) struct Set<T, const N: usize> {
    slots: Box<[Slot<T>; N]>,
    shift: u32,
}

impl<T: Copy, const N: usize> Set<T, N> {
    pub(super) fn new(shift: u32) -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { slots: Box::new([Slot { tag: 0, generation: 0, value: None }; N]), shift }
    }

    #[inline]
    pub(super) fn get(&self, vpn: Vpn, generation: u32) -> Option<&T> {
        let tag = vpn.0 >> self.shift;
        let slot = &self.slots[tag as usize & (N - 1)];
        if slot.tag == tag && slot.generation == generation { slot.value.as_ref() } else { None }
    }

    pub(super) fn insert(&mut self, vpn: Vpn, generation: u32, value: T) {
        let tag = vpn.0 >> self.shift;
        self.slots[tag as usize & (N - 1)] = Slot { tag, generation, value: Some(value) };
    }

    /// Forgets what shares a page with `range`.
    pub(super) fn flush(&mut self, range: VpnRange, generation: u32) {
        let Some((first, last)) = self.tags(range) else { return };
        if last - first < N as u64 {
            for tag in first..=last {
                let slot = &mut self.slots[tag as usize & (N - 1)];
                if slot.tag == tag {
                    slot.generation = 0;
                }
            }
        } else {
            let hit =
                |slot: &&mut Slot<T>| (first..=last).contains(&slot.tag) && slot.generation == generation;
            self.slots.iter_mut().filter(hit).for_each(|slot| slot.generation = 0);
        }
    }

    /// Shows what shares a page with `range`, by tag.
    pub(super) fn for_each(&self, range: VpnRange, generation: u32, mut f: impl FnMut(u64, &T)) {
        let Some((first, last)) = self.tags(range) else { return };
        let mut show = |slot: &Slot<T>| {
            if let Some(value) = &slot.value
                && (first..=last).contains(&slot.tag)
                && slot.generation == generation
            {
                f(slot.tag, value);
            }
        };
        if last - first < N as u64 {
            (first..=last).for_each(|tag| show(&self.slots[tag as usize & (N - 1)]));
        } else {
            self.slots.iter().for_each(show);
        }
    }

    /// First and last tag that share a page with `range`.
    fn tags(&self, range: VpnRange) -> Option<(u64, u64)> {
        (!range.is_empty()).then(|| (range.start.0 >> self.shift, (range.end.0 - 1) >> self.shift))
    }
}
