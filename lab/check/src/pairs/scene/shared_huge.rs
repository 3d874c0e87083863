//! Two CPUs at once on huge pages of shared memory, on the seeded machine.
//!
//! Both run a space that maps two huge pages of an object, and some pages of the first once more at another
//! place, where no huge leaf fits. Each CPU has a page of its own in the first huge page, which is never
//! unmapped. Each does an operation, then reads its page back, at both places. What holds whatever the
//! order: no store is lost, nothing is reached that is not mapped, no TLB holds two sizes, and counts of
//! frames are those of entries.

use super::{Cpu, Operation, Scene};
use crate::calls::{Call, CallResult, MapFlags, PAGE, Prot, advice};
use crate::drive::unordered;
use crate::huge::HUGE_BYTES;
use interleaf::machine::Format;
use interleaf::space::{MapRequest, Place, Sharing};
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::{HugePolicy, MthpPolicies, SharedHugePolicy};
use interleaf_lab::machine::baton::Report;
use std::ops::{Deref, Range};

/// What one CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectOperation {
    /// A store to the second huge page, which is not there yet in every other run.
    Fill,
    /// A store to the own page where no huge leaf fits: the folio is split.
    StoreElsewhere,
    /// munmap of pages around the border of the two.
    UnmapBorder,
    /// mprotect of pages around the border.
    ProtectBorder,
    /// MADV_DONTNEED of pages around the border, and of the first huge page.
    Discard,
    /// Private memory over pages around the border.
    MapOver,
    /// A pin of the own page, without a lock or with one.
    Pin,
    /// A fork, whose child stores to the own page, and ends first or last.
    Fork,
    /// munmap of all but the first huge page.
    UnmapRest,
}

impl ObjectOperation {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Fill,
        Self::StoreElsewhere,
        Self::UnmapBorder,
        Self::ProtectBorder,
        Self::Discard,
        Self::MapOver,
        Self::Pin,
        Self::Fork,
        Self::UnmapRest,
    ];
}

/// All unordered pairs.
pub fn all_objects() -> impl Iterator<Item = (ObjectOperation, ObjectOperation)> {
    unordered(&ObjectOperation::ALL)
}

/// The huge pages, in the main window of the setting.
const BASE: u64 = (16 << 40) + 64 * HUGE_BYTES;
/// Pages around the border of the two.
const BORDER: (u64, u64) = (BASE + HUGE_BYTES - 2 * PAGE, 4 * PAGE);
/// The first pages once more.
const ELSEWHERE: u64 = BASE + 8 * HUGE_BYTES + PAGE;
const PAGES_ELSEWHERE: u64 = 200;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);

/// Plays a pair with each seed. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_object_pair<F: Format>(
    pair: (ObjectOperation, ObjectOperation),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    let policies = (HugePolicy::Never, MthpPolicies::NEVER);
    Scene { pool: 0, huge: 8, policies, shared: SharedHugePolicy::Always, disk_bytes: None }
        .play::<F, _>(pair, seeds)
}

fn request(addr: u64, len_bytes: u64) -> MapRequest<'static> {
    let (place, sharing) = (Place::Fixed(VirtAddr(addr)), Sharing::Shared);
    MapRequest { place, sharing, ..MapRequest::anonymous(len_bytes) }
}

impl Operation for ObjectOperation {
    fn map<F: Format>(cpu: &Cpu<'_, '_, F>) {
        let space = cpu.space();
        space.map(&request(BASE, 2 * HUGE_BYTES)).expect("there is room");
        let elsewhere = request(ELSEWHERE, PAGES_ELSEWHERE * PAGE);
        let (object, first) = space.object_at(VirtAddr(BASE)).expect("it was mapped");
        space.map(&elsewhere.backed_by(object.at_page(first))).expect("there is room");
    }

    fn begin<F: Format>(cpu: &Cpu<'_, '_, F>) {
        // Untouched in every fourth run.
        if !cpu.seed.is_multiple_of(4) {
            Object(cpu).store(1);
        }
        if cpu.begins_with_second() {
            cpu.call(Call::Write { addr: BASE + HUGE_BYTES + 9 * PAGE, value: 9 });
        }
    }

    fn run<F: Format>(self, cpu: &Cpu<'_, '_, F>) {
        let cpu = Object(cpu);
        cpu.store(20);
        cpu.carry_out(self);
        let mut byte = [0];
        let elsewhere = VirtAddr(ELSEWHERE + cpu.own());
        // Not mapped any more, perhaps.
        if cpu.space().copy_from(elsewhere, &mut byte) == Ok(1) {
            cpu.must_read(byte[0]);
        }
    }
}

/// What one CPU does with the object's memory.
struct Object<'c, 'a, 'v, F: Format>(&'c Cpu<'a, 'v, F>);

impl<'a, 'v, F: Format> Deref for Object<'_, 'a, 'v, F> {
    type Target = Cpu<'a, 'v, F>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl<F: Format> Object<'_, '_, '_, F> {
    /// The own page within the object, which is never unmapped at its first place.
    fn own(&self) -> u64 {
        (5 + 100 * self.cpu) * PAGE
    }

    fn store(&self, value: u8) {
        let stored = self.call(Call::Write { addr: BASE + self.own(), value });
        assert_eq!(stored, CallResult::Written, "the own page is mapped");
    }

    fn must_read(&self, value: u8) {
        let read = self.call(Call::Read { addr: BASE + self.own() });
        assert_eq!(read, CallResult::Byte(value), "a store to shared memory is lost");
    }

    fn carry_out(&self, operation: ObjectOperation) {
        let ((border, len), second) = (BORDER, BASE + HUGE_BYTES);
        match operation {
            ObjectOperation::Fill => {
                self.call(Call::Write { addr: second + (7 + self.cpu) * PAGE, value: 3 });
                self.must_read(20);
            }
            ObjectOperation::StoreElsewhere => {
                let stored = self.call(Call::Write { addr: ELSEWHERE + self.own(), value: 4 });
                self.must_read(if stored == CallResult::Written { 4 } else { 20 });
            }
            ObjectOperation::UnmapBorder => {
                self.call(Call::Munmap { addr: border, len });
                self.must_read(20);
            }
            ObjectOperation::ProtectBorder => {
                for prot in [Prot::READ, BOTH] {
                    self.call(Call::Mprotect { addr: border, len, prot });
                }
                self.must_read(20);
            }
            ObjectOperation::Discard => {
                self.call(Call::Madvise { addr: border, len, advice: advice::DONTNEED });
                self.must_read(20);
                self.call(Call::Madvise { addr: BASE, len: HUGE_BYTES, advice: advice::DONTNEED });
                self.must_read(20);
            }
            ObjectOperation::MapOver => {
                let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::ANONYMOUS;
                self.call(Call::Mmap { hint: border, len, prot: BOTH, flags });
                self.call(Call::Write { addr: border, value: 5 });
                self.must_read(20);
            }
            ObjectOperation::Pin => {
                let addr = VirtAddr(BASE + self.own());
                let pins = self.space().pin_pages(addr, Access::Write, self.limit, [None]);
                assert!(pins.is_ok(), "the own page is mapped: {pins:?}");
                self.store(6);
                self.must_read(6);
            }
            ObjectOperation::Fork => {
                let child = self.space().fork().expect("there is memory");
                let addr = VirtAddr(BASE + self.own());
                assert_eq!(child.copy_to(addr, &[7]), Ok(1));
                self.must_read(7);
                self.store(8);
                let mut byte = [0];
                assert_eq!((child.copy_from(addr, &mut byte), byte), (Ok(1), [8]));
            }
            ObjectOperation::UnmapRest => {
                self.call(Call::Munmap { addr: second, len: 8 * HUGE_BYTES });
                // Not one of the border, where the other CPU may map something.
                let seen = self.call(Call::Read { addr: second + 50 * PAGE });
                assert!(!matches!(seen, CallResult::Byte(_)), "a page is reached where nothing is mapped");
                self.must_read(20);
            }
        }
    }
}
