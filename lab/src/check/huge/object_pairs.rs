//! Two CPUs at once on huge pages of shared memory, on the seeded machine.
//!
//! Both run a space that maps two huge pages of an object, and some pages of the first once more at another
//! place, where no huge leaf fits. Each CPU has a page of its own in the first huge page, which nobody
//! unmaps. Each does an operation, then reads its page back, at both places. What holds whatever the
//! order: no store is lost, nothing is reached that is not mapped, no TLB holds two sizes, and counts of
//! frames are those of entries.

use super::{HUGE, HUGE_BYTES};
use crate::check::calls::{Call, CallResult, MapFlags, PAGE, Prot, advice};
use crate::check::drive::Driver;
use crate::check::library::{boot_map, layout_of};
use crate::check::recount::QuiescentSystem;
use crate::check::setting::Setting;
use crate::machine::baton::{Baton, Options, Program, Report, Schedule, explore};
use crate::machine::soft::{MachineConfig, SoftMachine};
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, MapRequest, MemlockLimit, Path, Place, Sharing, Vm};
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf::vma::SharedHugePolicy;
use std::ops::Range;

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
    let every = ObjectOperation::ALL;
    (0..every.len()).flat_map(move |a| (a..every.len()).map(move |b| (every[a], every[b])))
}

/// The huge pages, in the main window of the setting.
const BASE: u64 = (16 << 40) + 64 * HUGE_BYTES;
/// Pages around the border of the two.
const BORDER: (u64, u64) = (BASE + HUGE_BYTES - 2 * PAGE, 4 * PAGE);
/// The first pages once more.
const ELSEWHERE: u64 = BASE + 8 * HUGE_BYTES + PAGE;
const PAGES_ELSEWHERE: u64 = 200;
const FRAMES: u64 = 8 * HUGE;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);

type Machine<F> = SoftMachine<Baton, F>;

/// Plays a pair with each seed. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_object_pair<F: Format>(
    pair: (ObjectOperation, ObjectOperation),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    let options = Options { limit_steps: 2_000_000, keep: 80 };
    let played = explore(seeds, options, move |schedule| scenario::<F>(schedule, pair));
    played.map(|summary| summary.steps)
}

fn scenario<F: Format>(schedule: &Schedule, pair: (ObjectOperation, ObjectOperation)) {
    let setting = Setting { memory_pages: 1 << 40, ..Setting::default() };
    let path = if schedule.seed().is_multiple_of(3) { Path::Locked } else { Path::Speculative };
    let machine = Machine::<F>::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
    let entered = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let vm = vm.with_shared_huge_pages(SharedHugePolicy::Always);
    let before = vm.memory().check().expect("frames add up").allocated;
    let space = AddressSpace::new(&vm, layout_of(&setting), path).expect("memory for a space");
    drop(entered);
    let limit = MemlockLimit::new(u64::MAX);
    let driver = || Driver { machine: &machine, space: &space };
    let cpus = [0, 1].map(|cpu| Cpu { driver: driver(), cpu, limit: &limit });
    let mut active = Vec::new();
    for cpu in &cpus {
        let _entered = machine.enter(CpuId(cpu.cpu as u32));
        if cpu.cpu == 0 {
            map(&space);
        }
        active.push(space.activate(None));
        // Untouched in every fourth run.
        if !schedule.seed().is_multiple_of(4) {
            cpu.store(1);
        }
        if cpu.cpu == 1 && schedule.seed().is_multiple_of(2) {
            cpu.call(Call::Write { addr: BASE + HUGE_BYTES + 9 * PAGE, value: 9 });
        }
    }
    let program = |(cpu, operation): (usize, ObjectOperation)| -> Program<'_> {
        let cpu = &cpus[cpu];
        Box::new(move || cpu.run(operation))
    };
    schedule.run(&machine, [pair.0, pair.1].into_iter().enumerate().map(program).collect());
    let entered = machine.enter(CpuId(0));
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path }.must_hold();
    assert_eq!(machine.violations(), [], "a TLB saw the impossible");
    let second = active.pop();
    drop(active);
    drop(entered);
    {
        let _entered = machine.enter(CpuId(1));
        drop(second);
        vm.trim();
    }
    let _entered = machine.enter(CpuId(0));
    drop(space);
    vm.trim();
    let after = vm.memory().check().expect("frames add up at the end").allocated;
    assert_eq!(after, before, "frames handed out before and after");
}

fn request(addr: u64, len_bytes: u64) -> MapRequest {
    let (place, sharing) = (Place::Fixed(VirtAddr(addr)), Sharing::Shared);
    MapRequest { place, sharing, ..MapRequest::anonymous(len_bytes) }
}

fn map<F: Format>(space: &AddressSpace<'_, Machine<F>>) {
    space.map(&request(BASE, 2 * HUGE_BYTES)).expect("there is room");
    let elsewhere = request(ELSEWHERE, PAGES_ELSEWHERE * PAGE);
    space.map_shared(space, VirtAddr(BASE), &elsewhere).expect("there is room");
}

/// What one CPU works with.
struct Cpu<'a, 'v, F: Format> {
    driver: Driver<'a, 'v, Baton, F>,
    cpu: u64,
    limit: &'a MemlockLimit<Baton>,
}

impl<'v, F: Format> Cpu<'_, 'v, F> {
    /// The own page within the object, which nobody unmaps at its first place.
    fn own(&self) -> u64 {
        (5 + 100 * self.cpu) * PAGE
    }

    fn call(&self, call: Call) -> CallResult {
        self.driver.call(&call)
    }

    fn store(&self, value: u8) {
        let stored = self.call(Call::Write { addr: BASE + self.own(), value });
        assert_eq!(stored, CallResult::Written, "the own page is mapped");
    }

    fn must_read(&self, value: u8) {
        let read = self.call(Call::Read { addr: BASE + self.own() });
        assert_eq!(read, CallResult::Byte(value), "a store to shared memory is lost");
    }

    fn run(&self, operation: ObjectOperation) {
        self.store(20);
        self.carry_out(operation);
        let mut byte = [0];
        let elsewhere = VirtAddr(ELSEWHERE + self.own());
        // Not mapped any more, perhaps.
        if self.driver.space.copy_from(elsewhere, &mut byte) == Ok(1) {
            self.must_read(byte[0]);
        }
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
                let pins = self.driver.space.pin_pages(addr, Access::Write, self.limit, [None]);
                assert!(pins.is_ok(), "the own page is mapped: {pins:?}");
                self.store(6);
                self.must_read(6);
            }
            ObjectOperation::Fork => {
                let child = self.driver.space.fork().expect("there is memory");
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
