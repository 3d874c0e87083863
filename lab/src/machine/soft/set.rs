//! A direct-mapped set: one slot for each value of the low bits of a tag.

use interleaf::units::{Vpn, VpnRange};

/// Two words, four slots to a cache line.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Tag (bits 0..52) and generation (bits 52..64) in one word. Generation 0 never is, so an empty slot
    /// matches nothing.
    key: u64,
    value: u64,
}

const EMPTY: Slot = Slot { key: 0, value: 0 };
const TAG_BITS: u32 = 52;
const TAG: u64 = (1 << TAG_BITS) - 1;

/// Which slots count. Starts at 1, and wraps after [`Generation::LAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

impl Generation {
    pub(super) const FIRST: Self = Self(1 << TAG_BITS);

    /// The next one; `None` where all have been used, and the sets must be emptied before they can be used
    /// again.
    pub(super) fn next(self) -> Option<Self> {
        self.0.checked_add(1 << TAG_BITS).map(Self)
    }
}

/// `N` slots for things that cover `1 << shift` pages each. A tag is a page number shifted right by that.
#[derive(Clone, Debug)]
pub(super) struct Set<const N: usize> {
    slots: Box<[Slot; N]>,
    shift: u32,
}

impl<const N: usize> Set<N> {
    pub(super) fn new(shift: u32) -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { slots: Box::new([EMPTY; N]), shift }
    }

    /// Empties every slot, whatever its generation.
    pub(super) fn clear(&mut self) {
        *self.slots = [EMPTY; N];
    }

    #[inline]
    pub(super) fn get(&self, vpn: Vpn, generation: Generation) -> Option<u64> {
        let tag = vpn.0 >> self.shift;
        let slot = self.slots[tag as usize & (N - 1)];
        (slot.key == tag | generation.0).then_some(slot.value)
    }

    #[inline]
    pub(super) fn insert(&mut self, vpn: Vpn, generation: Generation, value: u64) {
        let tag = vpn.0 >> self.shift;
        self.slots[tag as usize & (N - 1)] = Slot { key: tag | generation.0, value };
    }

    /// Drops the slot that covers the page.
    #[inline]
    pub(super) fn forget(&mut self, vpn: Vpn, generation: Generation) {
        let tag = vpn.0 >> self.shift;
        let slot = &mut self.slots[tag as usize & (N - 1)];
        if slot.key == tag | generation.0 {
            *slot = EMPTY;
        }
    }

    /// Drops the slots that share a page with `range`.
    pub(super) fn flush(&mut self, range: VpnRange, generation: Generation) {
        let Some((first, last)) = self.tags(range) else { return };
        if last - first < N as u64 {
            for tag in first..=last {
                let slot = &mut self.slots[tag as usize & (N - 1)];
                if slot.key == tag | generation.0 {
                    *slot = EMPTY;
                }
            }
        } else {
            let hit = |slot: &&mut Slot| slot.is_within(first, last, generation);
            self.slots.iter_mut().filter(hit).for_each(|slot| *slot = EMPTY);
        }
    }

    /// Passes every slot that shares a page with `range` to `f`, by tag.
    pub(super) fn for_each(&self, range: VpnRange, generation: Generation, mut f: impl FnMut(u64, u64)) {
        let Some((first, last)) = self.tags(range) else { return };
        let mut show = |slot: &Slot| {
            if slot.is_within(first, last, generation) {
                f(slot.key & TAG, slot.value);
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

impl Slot {
    fn is_within(&self, first: u64, last: u64, generation: Generation) -> bool {
        self.key & !TAG == generation.0 && (first..=last).contains(&(self.key & TAG))
    }
}
