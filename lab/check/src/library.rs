//! The library as a system that carries out memory calls, on the software machine.

use super::calls::{
    Call, FILE_PAGES, HUGE_BYTES, HugeLeaf, HugeLeaves, MapLine, Outcome, PAGE, PageState, Prot, System,
    fingerprint,
};
use super::disk::{Disk, FILE};
use super::drive::Driver;
use super::drive_file::FileWorld;
use super::recount::QuiescentSystem;
use super::setting::Setting;
use interleaf::machine::{Entry, Format, Machine};
use interleaf::space::{AddressSpace, Layout, MapRequest, ObjectHandle, Path, Place, Sharing, Vm, VmOptions};
use interleaf::table::walk;
use interleaf::units::{CpuId, Level, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{Areas, ThpDisable, VmaAttributes, VmaFlags};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::{Flavour, MachineConfig, SoftMachine, boot_map};

/// A handle of the one file.
pub(super) type File<'v, F> = ObjectHandle<'v, SoftMachine<Host, F>>;

/// The library on a machine whose tables have format `F`, its faults going `path`.
pub struct Library<F: Format> {
    pub(super) machine: SoftMachine<Host, F>,
    pub(super) setting: Setting,
    pub(super) path: Path,
    /// Where the file is written, if it is not in memory alone.
    pub(super) disk: Option<Disk>,
}

/// Frames of the machine: a sequence touches at most a few thousand pages.
const FRAMES: u64 = 1 << 14;

impl<F: Format> Library<F> {
    /// A machine for sequences in this setting.
    ///
    /// # Errors
    /// What the host says: no memory, no membarrier.
    pub fn new(setting: Setting, path: Path) -> std::io::Result<Self> {
        let machine = SoftMachine::new(&MachineConfig::small(1, FRAMES))?;
        Ok(Self { machine, setting, path, disk: None })
    }

    /// The same, with a file that is written back to a disk; `MADV_REMOVE` is left out then, as the disk has
    /// no part in it.
    #[must_use]
    pub fn with_disk(self) -> Self {
        Self { disk: Some(Disk::new(FILE_PAGES * PAGE)), ..self }
    }

    /// A handle of the one file, which is as it was at first.
    pub(super) fn open_file<'v>(&self, vm: &'v Vm<'v, SoftMachine<Host, F>>) -> File<'v, F> {
        let object = match &self.disk {
            None => ObjectHandle::new(vm, FILE_PAGES * PAGE),
            Some(disk) => {
                disk.clear();
                ObjectHandle::paged(vm, FILE)
            }
        };
        object.expect("there is memory for an object")
    }

    /// A system on the machine, with the setting's huge pages.
    pub(super) fn system(&self) -> Vm<'_, SoftMachine<Host, F>> {
        let memory = boot_map(&self.machine).claim(&self.machine).expect("no other system has it");
        let huge = self.setting.huge;
        let options = VmOptions {
            huge_pages: huge.policy,
            mthp: huge.sizes,
            // As Linux's default: a sequence also runs on the host.
            fault_around_bytes: 64 << 10,
            pager: self.disk.as_ref().map(|disk| disk as _),
            ..VmOptions::default()
        };
        Vm::start(memory, options).expect("the machine has memory")
    }

    /// Without huge pages in the setting, a process has disabled them.
    pub(super) fn set_thp_disable(&self, space: &AddressSpace<'_, SoftMachine<Host, F>>) {
        if self.setting.huge.is_never() {
            space.set_thp_disable(ThpDisable::Completely);
        }
    }
}

/// Fills what lies outside the windows with foreign mappings. No call makes a mapping that they could join:
/// advice sets one order of reading at a time.
pub(crate) fn fill<M: Machine>(setting: &Setting, space: &AddressSpace<'_, M>) {
    let [low, main] = &setting.windows;
    let ends = [setting.min_addr, low.start, low.end, main.start, main.end, setting.task_end];
    for gap in ends.chunks(2).filter(|gap| gap[0] < gap[1]) {
        let request = MapRequest {
            place: Place::Fixed(VirtAddr(gap[0])),
            flags: VmaFlags::NORESERVE | VmaFlags::SEQUENTIAL_READ | VmaFlags::RANDOM_READ,
            sharing: Sharing::Private,
            ..MapRequest::anonymous(gap[1] - gap[0])
        };
        space.map(&request).expect("an empty space takes foreign mappings");
    }
}

/// The layout of a space for sequences in this setting.
pub(crate) fn layout_of(setting: &Setting) -> Layout {
    let page = |addr: u64| VirtAddr(addr).vpn();
    Layout {
        areas: Areas {
            user: VpnRange::new(page(setting.min_addr), page(setting.task_end)),
            mmap_base: page(setting.mmap_base),
            legacy_base: page(setting.legacy_base),
        },
        heap_start: VirtAddr(setting.start_brk),
        max_mappings: setting.max_mappings - setting.foreign_mappings,
        max_commit_pages: Some(setting.memory_pages),
    }
}

impl<F: Format> System for Library<F> {
    fn name(&self) -> &str {
        "library"
    }

    fn run(&mut self, calls: &[Call]) -> Outcome {
        self.machine.unclaim_memory();
        let _cpu = self.machine.enter(CpuId(0));
        let vm = self.system();
        let before = vm.memory().check().expect("frames add up at the start").allocated;
        let outcome = {
            let space = AddressSpace::new(&vm, layout_of(&self.setting), self.path)
                .expect("there is memory for a space");
            fill(&self.setting, &space);
            self.set_thp_disable(&space);
            let (file, disk) = (self.open_file(&vm), self.disk.as_ref());
            let _running = space.activate(None);
            let driver = Driver { machine: &self.machine, space: &space };
            let run = Run { driver, setting: &self.setting };
            let world = FileWorld { file: &file, disk, spaces: &[&space] };
            let answers = calls.iter().map(|call| driver.call_with_file(call, &world)).collect();
            QuiescentSystem { machine: &self.machine, vm: &vm, spaces: &[&space], path: self.path }
                .must_hold();
            let map = run.map();
            let huge = huge_leaves(&self.setting, &space, &map);
            let pages = run.pages();
            // Which fills the file.
            world.check_disk();
            Outcome { answers, pages, huge, map }
        };
        vm.trim();
        let after = vm.memory().check().expect("frames add up at the end").allocated;
        assert_eq!(after, before, "frames handed out before and after");
        assert_eq!(self.machine.violations(), [], "the TLB saw the impossible");
        outcome
    }
}

struct Run<'a, 'v, F: Format> {
    driver: Driver<'a, 'v, Host, F>,
    setting: &'a Setting,
}

impl<F: Format> Run<'_, '_, F> {
    fn map(&self) -> Vec<MapLine> {
        let windows = &self.setting.windows;
        map_lines(self.driver.space, |start| windows.iter().any(|window| window.contains(&start)))
    }

    fn pages(&self) -> Vec<(u64, PageState)> {
        let all = self.setting.looked_at().into_iter().flat_map(|range| range.step_by(PAGE as usize));
        all.filter_map(|addr| Some((addr, page_state(self.driver.space, addr)?))).collect()
    }
}

/// The map of a space, the mappings whose first bytes are wanted.
pub(crate) fn map_lines<M: Machine>(
    space: &AddressSpace<'_, M>,
    wanted: impl Fn(u64) -> bool,
) -> Vec<MapLine> {
    let mut seen: Vec<_> = Vec::new();
    let mut lines = Vec::new();
    space.inspect().each_vma(|vma: &VmaAttributes| {
        let start = vma.range.start.addr().0;
        if !wanted(start) {
            return;
        }
        let object = (!vma.is_anonymous()).then(|| {
            let number = seen.iter().position(|&known| known == vma.backing).unwrap_or_else(|| {
                seen.push(vma.backing);
                seen.len() - 1
            });
            (number as u32, vma.offset * PAGE)
        });
        let prot = Prot::from_bits_retain((vma.flags & VmaFlags::ACCESS).bits());
        lines.push(MapLine { start, end: vma.range.end.addr().0, prot, object });
    });
    lines
}

/// The huge leaves of a space. No CPU changes them meanwhile.
pub(crate) fn huge_leaves<M: Machine>(
    setting: &Setting,
    space: &AddressSpace<'_, M>,
    map: &[MapLine],
) -> HugeLeaves {
    let reading = space.vm().read();
    let leaf = |start: u64| {
        let found = walk(space.inspect().page_table(), Vpn(start / PAGE), Level::Pte, &reading);
        let Entry::Leaf(leaf) = found.entry() else { return None };
        let kind = if leaf.owned() { HugeLeaf::Own } else { HugeLeaf::Zero };
        (found.table.level() == Level::Pmd).then_some((start, kind))
    };
    let leaves = if setting.huge.is_never() {
        Vec::new()
    } else {
        setting.huge_window().step_by(HUGE_BYTES as usize).filter_map(leaf).collect()
    };
    HugeLeaves::new(leaves, map)
}

/// Contents of the page at `addr`, if it is resident. No CPU writes it meanwhile.
pub(crate) fn page_state<C: Flavour, F: Format>(
    space: &AddressSpace<'_, SoftMachine<C, F>>,
    addr: u64,
) -> Option<PageState> {
    let (pfn, shared) = space.inspect().resident_frame(Vpn(addr / PAGE))?;
    let mut bytes = vec![0; PAGE as usize];
    space.vm().machine().read(pfn, 0, &mut bytes);
    Some(match pfn {
        _ if shared => PageState::Shared(fingerprint(&bytes)),
        zero if zero == space.vm().memory().zero_frame() => PageState::Zero,
        _ => PageState::Own(fingerprint(&bytes)),
    })
}
