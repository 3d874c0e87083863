//! Two CPUs at once on a file that is written back, on the seeded machine.
//!
//! ```text
//!   file       [ 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 ]      the end is at 8, and at 4 for a while
//!                        │   │   └─ contested: shortened, holed, stored to by both ─┘
//!                        │   └ CPU 1's own page
//!                        └ CPU 0's own page: no other stores there, and it stays
//!   KEPT       all of it, shared, never unmapped
//!   SHARED     all of it, shared            PRIVATE    all of it, private
//! ```
//!
//! Each CPU stores to its page, does an operation, and reads its page back, by the mapping and from the file.
//! What holds whatever the order:
//!
//! * no store to the own pages is lost, nor is a private one seen elsewhere;
//! * what was stored before msync or a sync is on the disk when that returns;
//! * what lay in contested pages at first does not come back once they were cut off, though the disk was
//!   being written;
//! * an entry lets stores through only while its page is dirty;
//! * in the end the disk has what the file has.

use super::{Cpu, FileOperation, Operation, Scene};
use crate::calls::{Call, CallResult, Errno, MapFlags, PAGE, Prot, advice};
use crate::disk::{Disk, FILE};
use crate::drive::unordered;
use crate::drive_file::FileWorld;
use interleaf::machine::{Cpu as _, Format};
use interleaf::space::{MapRequest, ObjectHandle, Place, Sharing, SpaceId};
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::{HugePolicy, MthpPolicies, SharedHugePolicy};
use interleaf_lab::machine::baton::{Baton, Report};
use interleaf_lab::machine::soft::SoftMachine;
use std::ops::{Deref, Range};

/// All unordered pairs.
pub fn all_files() -> impl Iterator<Item = (FileOperation, FileOperation)> {
    unordered(&FileOperation::ALL)
}

/// The mappings, in the main window of the setting.
const KEPT: u64 = (16 << 40) + (64 << 21);
const SHARED: u64 = KEPT + 32 * PAGE;
const PRIVATE: u64 = KEPT + 64 * PAGE;
/// Pages of the file, and of each mapping.
const PAGES: u64 = 8;
/// The first contested page.
const CONTESTED: u64 = 4;
/// A contested page.
const PLACE: u64 = 5;
/// What contested pages hold at first.
const OLD: u8 = 99;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);

/// Plays a pair with each seed. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_file_pair<F: Format>(
    pair: (FileOperation, FileOperation),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    let policies = (HugePolicy::Never, MthpPolicies::NEVER);
    let disk_bytes = Some(PAGES * PAGE);
    Scene { pool: 0, huge: 1, policies, shared: SharedHugePolicy::Never, disk_bytes }
        .play::<F, _>(pair, seeds)
}

impl Operation for FileOperation {
    fn map<F: Format>(cpu: &Cpu<'_, '_, F>) {
        let space = cpu.space();
        let file = ObjectHandle::paged(space.vm(), FILE).expect("there is memory for an object");
        for (addr, sharing) in
            [(KEPT, Sharing::Shared), (SHARED, Sharing::Shared), (PRIVATE, Sharing::Private)]
        {
            let place = Place::Fixed(VirtAddr(addr));
            let request = MapRequest { place, sharing, ..MapRequest::anonymous(PAGES * PAGE) };
            space.map(&request.backed_by(file.at_page(0))).expect("there is room");
        }
    }

    fn begin<F: Format>(cpu: &Cpu<'_, '_, F>) {
        let cpu = File(cpu);
        cpu.store(1);
        // Clean, absent or dirty in some runs each.
        if cpu.cpu == 0 && !cpu.seed.is_multiple_of(4) {
            for page in CONTESTED..PAGES {
                cpu.call(Call::Write { addr: KEPT + page * PAGE, value: OLD });
            }
        }
    }

    fn run<F: Format>(self, cpu: &Cpu<'_, '_, F>) {
        let cpu = File(cpu);
        if cpu.cpu == 1 && cpu.seed & 2 != 0 {
            cpu.sync();
        }
        cpu.store(20);
        let own = cpu.carry_out(self);
        cpu.must_have(own);
    }

    fn end<F: Format>(cpu: &Cpu<'_, '_, F>) {
        let cpu = File(cpu);
        cpu.with_world(|world| world.check_disk());
    }
}

/// What one CPU does with the file.
struct File<'c, 'a, 'v, F: Format>(&'c Cpu<'a, 'v, F>);

impl<'a, 'v, F: Format> Deref for File<'_, 'a, 'v, F> {
    type Target = Cpu<'a, 'v, F>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

type Handle<'v, F> = ObjectHandle<'v, SoftMachine<Baton, F>>;

impl<'a, 'v, F: Format> File<'_, 'a, 'v, F> {
    /// The own page.
    fn own(&self) -> u64 {
        (2 + self.cpu) * PAGE
    }

    fn disk(&self) -> &'a Disk {
        self.0.disk.expect("the scene has a disk")
    }

    fn handle(&self) -> Handle<'v, F> {
        self.space().object_at(VirtAddr(KEPT)).expect("it stays mapped").0
    }

    fn hold(&self, id: SpaceId) -> Option<&'a interleaf::space::AddressSpace<'v, SoftMachine<Baton, F>>> {
        (self.driver.space.id() == id).then_some(self.driver.space)
    }

    fn with_world<R>(&self, f: impl FnOnce(&FileWorld<'_, 'v, Baton, F>) -> R) -> R {
        let spaces = [self.driver.space];
        f(&FileWorld { file: &self.handle(), disk: Some(self.disk()), spaces: &spaces })
    }

    /// A store to the own page.
    fn store(&self, value: u8) {
        let stored = self.call(Call::Write { addr: KEPT + self.own(), value });
        assert_eq!(stored, CallResult::Written, "the own page is mapped");
    }

    /// The own page has the value, in the mapping and in the file.
    fn must_have(&self, value: u8) {
        let read = self.call(Call::Read { addr: KEPT + self.own() });
        assert_eq!(read, CallResult::Byte(value), "a store to the own page is lost");
        let mut byte = [0];
        assert_eq!(self.handle().read_at(self.own(), &mut byte), Ok(1));
        assert_eq!(byte, [value], "the file has not what its mapping shows");
    }

    /// A load, or a store, of a contested page: nothing that was never stored there, no error but that it is
    /// beyond the end, or not mapped.
    fn look(&self, base: u64, store: Option<u8>) {
        let addr = base + PLACE * PAGE;
        let call = store.map_or(Call::Read { addr }, |value| Call::Write { addr, value });
        match self.call(call) {
            CallResult::Byte(byte) => assert!(is_stored(byte), "{byte} was never stored"),
            CallResult::Written | CallResult::Bus | CallResult::Segv(_) => {}
            other => panic!("{other:?} of a load or store"),
        }
    }

    fn sync(&self) {
        let file = self.handle();
        let written = file.sync(&mut file.error_cursor(), |id| self.hold(id)).expect("the disk takes all");
        assert_eq!(written.failed, 0, "{written:?}");
    }

    /// The own page, whose value was stored before, is on the disk.
    fn must_be_written(&self, value: u8) {
        assert_eq!(
            self.disk().page(self.own() / PAGE)[0],
            value,
            "what was stored before is not on the disk"
        );
    }

    /// The embedder lets one caller at a time change the length.
    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        while !self.disk().try_lock() {
            Baton::relax();
        }
        let done = f();
        self.disk().unlock();
        done
    }

    fn lengthen(&self, len: u64) {
        self.locked(|| self.set_len(len));
    }

    fn set_len(&self, len: u64) {
        let reach = self.handle().set_len_bytes(len, |id| self.hold(id)).expect("an object may be as long");
        assert!(reach.missing <= 3, "{reach:?}");
    }

    fn shorten(&self, len: u64) {
        let pages = len.div_ceil(PAGE)..2 * PAGES;
        self.without_faults(pages, || {
            self.set_len(len);
            self.disk().zero(len..u64::MAX);
        });
    }

    /// The embedder keeps faults and writing away while its own file and the object lose pages.
    fn without_faults(&self, pages: Range<u64>, f: impl FnOnce()) {
        self.locked(|| {
            self.disk().keep_away(pages.clone());
            f();
            self.disk().let_in(&pages);
        });
        pages.for_each(|page| self.space().vm().page_ready(FILE, page));
    }

    /// Does the operation. Returns what the own page holds then.
    fn carry_out(&self, operation: FileOperation) -> u8 {
        let (all, contested) = (PAGES * PAGE, (CONTESTED * PAGE, (PAGES - CONTESTED) * PAGE));
        match operation {
            FileOperation::Load => self.look(KEPT, None),
            FileOperation::Store => self.look(KEPT, Some(30 + self.cpu as u8)),
            FileOperation::Upgrade => {
                self.look(SHARED, None);
                self.look(SHARED, Some(32 + self.cpu as u8));
            }
            FileOperation::StorePrivate => {
                self.call(Call::Write { addr: PRIVATE + self.own(), value: 40 });
                self.look(PRIVATE, Some(41));
            }
            FileOperation::CutOff => self.cut_off(contested.0),
            FileOperation::Extend => {
                self.lengthen(all + 3 * PAGE);
                self.shorten(all - 100);
                self.lengthen(all);
            }
            FileOperation::PunchHole => self.punch_hole(contested.0),
            FileOperation::Remove => {
                let removed = self.space().remove(VirtAddr(KEPT + contested.0), PAGE, |id| self.hold(id));
                assert!(removed.is_ok(), "{removed:?}");
            }
            FileOperation::Msync => {
                let call = Call::Msync { addr: KEPT, len: all, flags: 4 };
                assert_eq!(self.call(call), CallResult::Value(0));
                self.must_be_written(20);
            }
            FileOperation::Sync => {
                self.sync();
                self.must_be_written(20);
            }
            FileOperation::ReadAt => self.read_all(),
            FileOperation::WriteAt => {
                assert_eq!(self.handle().write_at(self.own(), &[50]), Ok(1));
                assert_eq!(self.locked(|| self.handle().write_at(PLACE * PAGE, &[51])), Ok(1));
                return 50;
            }
            FileOperation::Pin => {
                let addr = VirtAddr(KEPT + self.own());
                let pins = self.space().pin_pages(addr, Access::Write, self.limit, [None]);
                assert!(pins.is_ok(), "the own page is mapped: {pins:?}");
                self.store(60);
                return 60;
            }
            FileOperation::Fork => {
                let child = self.space().fork().expect("there is memory");
                assert_eq!(child.copy_to(VirtAddr(KEPT + self.own()), &[70]), Ok(1));
                return 70;
            }
            other => self.change_mapping(other),
        }
        20
    }

    /// Operations on mappings, which the other CPU may have changed.
    fn change_mapping(&self, operation: FileOperation) {
        let len = PAGES * PAGE;
        match operation {
            FileOperation::Unmap => {
                self.call(Call::Munmap { addr: SHARED, len });
            }
            FileOperation::Protect => {
                for prot in [Prot::READ, BOTH] {
                    self.call(Call::Mprotect { addr: SHARED, len, prot });
                }
                self.look(SHARED, Some(33));
            }
            FileOperation::Discard => {
                for addr in [KEPT, SHARED, PRIVATE] {
                    self.call(Call::Madvise { addr, len, advice: advice::DONTNEED });
                }
            }
            FileOperation::MapOver => {
                let flags = MapFlags::FIXED | MapFlags::SHARED;
                let map = Call::map_file(SHARED, 4 * PAGE, BOTH, flags, 3);
                let mapped = self.with_world(|world| self.driver.call_with_file(&map, world));
                assert_eq!(mapped, CallResult::Value(SHARED));
                self.call(Call::Write { addr: SHARED + 2 * PAGE, value: 34 });
            }
            _ => {
                let answer = self.call(Call::Madvise { addr: KEPT, len, advice: advice::POPULATE_WRITE });
                let refused = CallResult::Error(Errno::EFAULT);
                assert!(answer == CallResult::Value(0) || answer == refused, "{answer:?}");
            }
        }
    }

    /// What was there before does not come back, though the disk was being written.
    fn cut_off(&self, end: u64) {
        self.shorten(end);
        self.lengthen(PAGES * PAGE);
        let seen = self.call(Call::Read { addr: KEPT + PLACE * PAGE });
        assert_ne!(seen, CallResult::Byte(OLD), "a page that was cut off has come back");
    }

    fn punch_hole(&self, start: u64) {
        let hole = start..start + 2 * PAGE;
        self.without_faults(start / PAGE..start / PAGE + 2, || {
            let reach = self.handle().punch_hole(start, 2 * PAGE, |id| self.hold(id)).expect("pages");
            assert!(reach.missing <= 3, "{reach:?}");
            self.disk().zero(hole);
        });
        let seen = self.call(Call::Read { addr: KEPT + PLACE * PAGE });
        assert_ne!(seen, CallResult::Byte(OLD), "a page of a hole has come back");
    }

    fn read_all(&self) {
        for page in CONTESTED..PAGES {
            let mut byte = [0];
            match self.handle().read_at(page * PAGE, &mut byte) {
                Ok(0) => {}
                Ok(_) => assert!(is_stored(byte[0]), "{byte:?} was never stored"),
                Err(error) => panic!("{error}"),
            }
        }
        let mut byte = [0];
        assert_eq!(self.space().copy_from(VirtAddr(KEPT + self.own()), &mut byte), Ok(1));
        assert_eq!(byte, [20]);
    }
}

/// Whether an operation, or what comes before it, stores the byte to a contested page of the file.
fn is_stored(byte: u8) -> bool {
    matches!(byte, 0 | 30..=34 | 41 | 51 | OLD)
}
