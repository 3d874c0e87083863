//! The state word of a frame record: the kind of the frame, its references and its pins, as one value.
//!
//! | bits | meaning |
//! |---|---|
//! | 0..16 | references to the frame that are no pins. None unless it is allocated |
//! | 16..38 | pincount: pins, each of which is a reference too (`User`, `Object`) |
//! | 38..42 | [`Kind`] |
//! | 42..47 | order of the block that starts here; 0 for kinds that are single frames |
//! | 47 | *zeroed*: all bytes of the block are known to be zero (`Free`, `Cached`; `Taken` in the pool) |
//! | 48 | *exclusive*: only one address space maps it; it may be written without a copy (`User`) |
//! | 49 | *attached*: a walk from a root may reach it (`Table`) |
//! | 50 | *lazyfree*: the contents may be discarded until the next write (`User`) |
//! | 51 | *retired*: waits for readers (`Table`) |
//! | 52 | *dirty*: written through an entry that is gone (`User`, `Object`) |
//! | 53 | *hugetlb*: the hugetlb pool keeps the folio while it is not in use (`Taken`, `User`, `Object`) |
//! | 54..62 | index of the zone (`Free`) |
//! | 62 | *restores*: the pool keeps the folio for an entry once its use ends (`User`; until it is back) |
//! | 63 | *astray*: it was to be kept so, and references keep it (`User`; until it is back) |
//!
//! The refcount is the sum of references and pins. (Linux adds 1 024 to one count for a pin of a small folio,
//! and has a second word for those of large ones.)
//!
//! A word of zero is [`Kind::Reserved`]: a hole, boot memory, or a frame inside a
//! block whose head lies before it. A frame inside a block may also say `Cached`: it was freed from a cache
//! with its neighbours, as one block, of which only the head's record is written. No code reads it there.
//!
//! Kind and counts share a word so that [`FrameState::gotten`] refuses a frame that has changed its kind: a
//! lockless walker that holds an old entry can raise the counts of a `User` or `Object` frame only. And so
//! that a pin takes one read-modify-write, which finds the frame *exclusive* and is the reference. Hence
//! frames of all other kinds have one owner, which changes the word by plain stores.
//!
//! ```text
//!            Reserved (boot memory, inside of blocks)
//!                │ zone
//!                ▼   refill, split             alloc
//!      ┌───── Free ───────────► Cached ───────────────► Taken ◄─► Table, Slab, Zero
//!      │       ▲  ▲                │ ▲                   │  ▲
//!      │       │  └──── spill ─────┘ └────── free ───────┤  │ last put
//!      │       └───────────── free of a larger block ────┘  │
//!      └── alloc of a larger block ──► Taken                └── User, Object
//! ```

use super::Kind;
use crate::frame::Init;
use crate::units::{Order, Pfn};
use core::fmt;

/// The state word as a value; transitions are pure functions from old to new.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct FrameState(pub(in crate::frame) u64);

/// One pin. Below are the references that are no pins.
const PIN: u64 = 1 << 16;
const REFS: u64 = PIN - 1;
const KIND_SHIFT: u32 = 38;
/// All bits set: more pins are refused. Of a folio of 1 GiB that is 16 of each frame.
const PINS: u64 = (1 << KIND_SHIFT) - PIN;
const ORDER_SHIFT: u32 = 42;
const ZEROED: u64 = 1 << 47;
const EXCLUSIVE: u64 = 1 << 48;
const ATTACHED: u64 = 1 << 49;
const LAZYFREE: u64 = 1 << 50;
const RETIRED: u64 = 1 << 51;
const DIRTY: u64 = 1 << 52;
const HUGETLB: u64 = 1 << 53;
const ZONE_SHIFT: u32 = 54;
const RESTORES: u64 = 1 << 62;
const ASTRAY: u64 = 1 << 63;
/// More references than this are refused, so that no count ever overflows: each is a value somewhere, most of
/// them for a moment, and all entries have one together.
const MOST_REFS: u64 = REFS;

impl FrameState {
    /// The all-zero word.
    pub const RESERVED: Self = Self(0);
    /// A single frame just allocated.
    pub const TAKEN_FRAME: Self = Self::taken(Order::BASE);
    /// A single frame of user memory that was just put to use: exclusive, one reference.
    pub const USER_FRAME: Self = Self(Self::of(Kind::User, Order::BASE).0 | EXCLUSIVE | 1);

    /// As [`USER_FRAME`](Self::USER_FRAME), of a frame that was part of a folio: *lazyfree* as that was.
    pub const fn part(lazyfree: bool) -> Self {
        Self(Self::USER_FRAME.0 | if lazyfree { LAZYFREE } else { 0 })
    }

    /// As [`part`](Self::part), of a folio that is split and has this state: others map the frame too, if
    /// they mapped the folio.
    pub(in crate::frame) const fn part_of(folio: Self) -> Self {
        Self(Self::USER_FRAME.0 & !EXCLUSIVE | folio.0 & (EXCLUSIVE | LAZYFREE))
    }

    const fn of(kind: Kind, order: Order) -> Self {
        Self(((kind as u64) << KIND_SHIFT) | ((order.0 as u64) << ORDER_SHIFT))
    }

    /// The head of a free block.
    pub const fn free(zone: u8, order: Order, init: Init) -> Self {
        Self(Self::of(Kind::Free, order).0 | ((zone as u64) << ZONE_SHIFT) | init.bit())
    }
    /// A frame in a CPU's cache.
    pub const fn cached(init: Init) -> Self {
        Self(Self::of(Kind::Cached, Order::BASE).0 | init.bit())
    }
    /// A block just allocated, with one reference.
    pub const fn taken(order: Order) -> Self {
        Self(Self::of(Kind::Taken, order).0 | 1)
    }

    /// A folio that the hugetlb pool keeps, with one reference, the pool's.
    pub const fn hugetlb(order: Order, init: Init) -> Self {
        Self(Self::taken(order).0 | HUGETLB | init.bit())
    }

    /// Whether the bits agree: what has gone astray does not come back for an entry.
    pub(in crate::frame) const fn is_sound(self) -> bool {
        self.0 & (RESTORES | ASTRAY) != RESTORES | ASTRAY
    }

    /// The kind of the frame.
    pub const fn kind(self) -> Kind {
        Kind::from_bits((self.0 >> KIND_SHIFT) & 0xf)
    }
    /// Order of the block that starts here.
    pub const fn order(self) -> Order {
        Order((self.0 >> ORDER_SHIFT) as u8 & 0x1f)
    }
    /// Number of references, pins among them.
    pub const fn refcount(self) -> u32 {
        (self.0 & REFS) as u32 + self.pincount()
    }
    /// Number of pins; 0 in kinds that are not counted.
    pub const fn pincount(self) -> u32 {
        ((self.0 & PINS) / PIN) as u32
    }
    /// Whether there is one reference, which is no pin: that of the entries, where there are any.
    pub(crate) const fn has_one_reference(self) -> bool {
        self.0 & (PINS | REFS) == 1
    }
    /// Whether no more references can be counted, but for pins.
    pub(crate) const fn has_most_references(self) -> bool {
        self.0 & REFS == MOST_REFS
    }
    /// The known contents.
    pub const fn init(self) -> Init {
        if self.0 & ZEROED != 0 { Init::Zeroed } else { Init::Dirty }
    }
    /// Whether only one address space maps it.
    pub const fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }
    /// Whether a walk from a root may reach the table.
    pub const fn is_attached(self) -> bool {
        self.0 & ATTACHED != 0
    }
    /// Whether the contents may be discarded.
    pub const fn is_lazyfree(self) -> bool {
        self.0 & LAZYFREE != 0
    }
    /// Whether a huge zero page begins at the frame.
    pub(crate) const fn is_huge_zero(self) -> bool {
        matches!(self.kind(), Kind::Zero) && self.order().0 == Order::HUGE.0
    }
    /// Whether the folio goes back to the hugetlb pool.
    pub const fn is_hugetlb(self) -> bool {
        self.0 & HUGETLB != 0
    }
    /// Whether the hugetlb pool keeps the folio for an entry once it is back.
    pub const fn restores(self) -> bool {
        self.0 & RESTORES != 0
    }
    /// Whether references have kept it when it was to come back to the hugetlb pool for an entry.
    pub(in crate::frame) const fn is_astray(self) -> bool {
        self.0 & ASTRAY != 0
    }
    /// Whether it was written through an entry that is gone.
    pub const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }
    /// Whether a free block of `order` of this zone starts here, so that its buddy may merge with it.
    pub const fn is_free_block(self, zone: u8, order: Order) -> bool {
        self.0 & !ZEROED == Self::free(zone, order, Init::Dirty).0
    }

    /// Whether the record of a frame inside a block may say this.
    pub const fn may_lie_inside(self) -> bool {
        self.0 == 0 || self.0 & !ZEROED == Self::cached(Init::Dirty).0
    }

    /// A taken frame put to a use, with one reference.
    pub fn becomes(self, kind: Kind) -> Option<Self> {
        let flags = match kind {
            Kind::User => EXCLUSIVE,
            Kind::Object | Kind::Table | Kind::Slab | Kind::Zero => 0,
            _ => return None,
        };
        let single = self.order() == Order::BASE;
        let fits = single || matches!(kind, Kind::User | Kind::Object | Kind::Zero);
        let hugetlb = self.0 & HUGETLB;
        let fits = fits && (hugetlb == 0 || kind.is_counted());
        let is_taken = self.0 == Self::taken(self.order()).0 | hugetlb;
        (is_taken && fits).then(|| Self(Self::of(kind, self.order()).0 | flags | hugetlb | 1))
    }
    /// A detached table begins to wait for readers.
    pub fn retired(self) -> Option<Self> {
        let waits = self.0 & (ATTACHED | RETIRED) != 0;
        (self.kind() == Kind::Table && !waits).then_some(Self(self.0 | RETIRED))
    }
    /// The wait is over: detached as before.
    pub fn unretired(self) -> Option<Self> {
        (self.kind() == Kind::Table && self.0 & RETIRED != 0).then_some(Self(self.0 & !RETIRED))
    }
    /// A detached table, an empty slab or a huge zero page without users, taken again, to be freed.
    pub fn relinquished(self) -> Option<Self> {
        let idle = match self.kind() {
            Kind::Table => self.0 & (ATTACHED | RETIRED) == 0,
            Kind::Slab => true,
            // The zero page of one frame stays.
            Kind::Zero => self.order() == Order::HUGE,
            _ => false,
        };
        idle.then(|| Self::taken(self.order()))
    }
    /// One more reference. Refused unless the frame is user memory (still).
    pub fn gotten(self) -> Option<Self> {
        let fits = self.is_held() && self.0 & REFS < MOST_REFS;
        fits.then(|| Self(self.0 + 1))
    }
    /// User memory with a reference besides the entries'.
    fn is_held(self) -> bool {
        self.kind().is_counted() && self.0 & (PINS | REFS) != 0
    }
    /// One more pin, which is a reference. Refused as [`gotten`](Self::gotten), and also where the page may
    /// get another frame while it is pinned: user memory that is not *exclusive*, or may be discarded; memory
    /// of an object in a private mapping, which is never `writable` there.
    pub fn gotten_to_pin(self, writable: bool) -> Option<Self> {
        let is_kept = match self.kind() {
            Kind::Object => writable || mutant!("pin.fast-object-pinned"),
            _ => self.is_exclusive() && !self.is_lazyfree(),
        };
        let is_kept = is_kept || mutant!("pin.fast-shared-pinned");
        let fits = is_kept && self.is_held() && self.0 & PINS != PINS;
        fits.then(|| Self(self.0 + PIN))
    }
    /// A reference that becomes a pin.
    pub fn pinned(self) -> Option<Self> {
        let fits = self.kind().is_counted() && self.0 & REFS != 0 && self.0 & PINS != PINS;
        fits.then(|| Self(self.0 + PIN - 1))
    }
    /// One reference less, which is no pin; after the last one the frame is `Taken`, and to be freed.
    pub fn put(self) -> Option<Self> {
        self.less(1, REFS)
    }
    /// As [`put`](Self::put), of a pin.
    pub fn unpinned(self) -> Option<Self> {
        self.less(PIN, PINS)
    }
    /// As [`put`](Self::put), of the reference that the entry of a folio had which *restores*: if it is not
    /// the last, the folio has gone *astray*.
    pub(in crate::frame) fn put_restoring(self) -> Option<Self> {
        let left = self.put()?;
        let is_kept = left.kind().is_counted() && !mutant!("pool.astray-not-noted");
        Some(if is_kept { Self(left.0 & !RESTORES | ASTRAY) } else { left })
    }
    fn less(self, one: u64, counts: u64) -> Option<Self> {
        if !self.kind().is_counted() || self.0 & counts == 0 {
            return None;
        }
        let is_last = self.0 & (PINS | REFS) == one;
        Some(if is_last {
            Self(Self::taken(self.order()).0 | self.0 & (HUGETLB | RESTORES | ASTRAY))
        } else {
            Self(self.0 - one)
        })
    }
    /// Not *exclusive* from now on: writes need a copy. Refused where there is a reference besides that of
    /// the entry: its holder may have pinned the frame, or be about to, as it found it *exclusive*.
    pub fn clear_exclusive(self) -> Option<Self> {
        let is_alone = self.has_one_reference() || mutant!("fork.pinned-shared");
        let fits = self.kind() == Kind::User && self.is_exclusive() && is_alone;
        fits.then_some(Self(self.0 & !EXCLUSIVE))
    }
    /// A folio of the hugetlb pool whose entry is gone, and which that entry gets again once it is back.
    /// Refused where there is a reference besides the entry's, which may last, or other entries may be.
    pub fn restoring(self) -> Option<Self> {
        let is_alone = self.has_one_reference() || mutant!("pool.restored-though-pinned");
        let is_own = self.is_exclusive() || mutant!("pool.restored-though-shared");
        let fits = self.kind() == Kind::User && self.is_hugetlb() && is_alone && is_own;
        fits.then_some(Self(self.0 | RESTORES))
    }
    /// Exclusive again, where there is no other reference.
    pub fn set_exclusive(self) -> Option<Self> {
        (self.kind() == Kind::User && self.has_one_reference()).then_some(Self(self.0 | EXCLUSIVE))
    }
    /// Written through an entry that is gone. Refused where that was noted before.
    pub fn dirtied(self) -> Option<Self> {
        (self.kind().is_counted() && !self.is_dirty()).then_some(Self(self.0 | DIRTY))
    }
    /// With the lazyfree mark as given.
    pub fn with_lazyfree(self, lazyfree: bool) -> Option<Self> {
        let flag = if lazyfree { LAZYFREE } else { 0 };
        (self.kind() == Kind::User).then_some(Self(self.0 & !LAZYFREE | flag))
    }
    /// The first frame of a folio of user memory, as a frame of its own; the others need records of their own
    /// then. References, which are those of the first frame from now on, stay.
    pub fn split(self) -> Option<Self> {
        let is_folio = self.kind() == Kind::User && self.order() != Order::BASE;
        (is_folio && !self.is_hugetlb()).then_some(Self(self.0 & !(0x1f << ORDER_SHIFT)))
    }
    /// As [`split`](Self::split), of a folio of an object.
    pub(in crate::frame) fn split_of_object(self) -> Option<Self> {
        self.is_splittable_of_object().then_some(Self(self.0 & !(0x1f << ORDER_SHIFT)))
    }
    /// Whether it is a folio of an object that may be split: not one of the hugetlb pool.
    pub(in crate::frame) const fn is_splittable_of_object(self) -> bool {
        matches!(self.kind(), Kind::Object) && self.order().0 != Order::BASE.0 && !self.is_hugetlb()
    }
    /// A frame of a folio of an object that is split: the index has a reference, and all entries one together
    /// if there are any. Those may have been written through.
    pub(in crate::frame) const fn part_of_object(folio: Self, is_mapped: bool) -> Self {
        let (refs, dirty) = if is_mapped { (2, DIRTY) } else { (1, folio.0 & DIRTY) };
        Self(Self::of(Kind::Object, Order::BASE).0 | dirty | refs)
    }
    /// State of a tail frame after its folio is one again: all zero. Refused where there is a reference
    /// besides the entries'.
    pub(in crate::frame) fn rejoined(self) -> Option<Self> {
        let is_alone = self.has_one_reference() || mutant!("thp.rejoined-though-referenced");
        let is_part = self.kind() == Kind::User && self.order() == Order::BASE && !self.is_exclusive();
        (is_part && is_alone).then_some(Self::RESERVED)
    }
    /// As [`rejoined`](Self::rejoined), of the first frame: exclusive user memory of this order.
    pub(in crate::frame) fn rejoined_first(self, order: Order) -> Option<Self> {
        self.rejoined().map(|_| Self(Self::of(Kind::User, order).0 | EXCLUSIVE | 1))
    }
    /// Walks may reach the table from now on.
    pub fn attached(self) -> Option<Self> {
        let idle = self.0 & (ATTACHED | RETIRED) == 0;
        (self.kind() == Kind::Table && idle).then_some(Self(self.0 | ATTACHED))
    }
    /// No walk reaches the table from now on.
    pub fn detached(self) -> Option<Self> {
        (self.kind() == Kind::Table && self.is_attached()).then_some(Self(self.0 & !ATTACHED))
    }
}

impl Init {
    const fn bit(self) -> u64 {
        match self {
            Init::Dirty => 0,
            Init::Zeroed => ZEROED,
        }
    }
}

/// The other half of the block of twice the size.
pub(in crate::frame) const fn buddy_of(pfn: Pfn, order: Order) -> Pfn {
    Pfn(pfn.0 ^ order.frames())
}

impl fmt::Debug for FrameState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} refs {} pins {}", self.kind(), self.order(), self.refcount(), self.pincount())?;
        let flags = [
            (self.is_exclusive(), " exclusive"),
            (self.is_attached(), " attached"),
            (self.is_lazyfree(), " lazyfree"),
            (self.is_dirty(), " dirty"),
            (self.init() == Init::Zeroed, " zeroed"),
            (self.is_hugetlb(), " hugetlb"),
        ];
        flags.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| f.write_str(name))
    }
}

#[cfg(test)]
#[path = "../tests/state.rs"]
mod tests;
