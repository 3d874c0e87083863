//! The library as a system that carries out memory calls, on the software machine.

use super::calls::{Answer, Call, Errno, MapLine, Outcome, PAGE, PageState, Prot, Segv, System, fingerprint};
use super::setting::Setting;
use crate::host::Host;
use crate::soft::{FaultHandler, Plan, Signal, SoftMachine};
use interleaf::frame::{BootMap, Init, Region, Use};
use interleaf::machine::{Format, Machine};
use interleaf::space::{
    AddressSpace, Error, Fault, FaultError, Layout, MapRequest, Path, Place, Sharing, Vm, linux,
};
use interleaf::units::{Access, CpuId, NodeId, Pfn, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{Areas, VmaFlags, VmaSpec};
use std::cell::Cell;

/// The library on a machine whose tables have format `F`, its faults going `path`.
pub struct Library<F: Format> {
    machine: SoftMachine<Host, F>,
    setting: Setting,
    path: Path,
}

/// Frames of the machine: a sequence touches at most a few thousand pages.
const FRAMES: u64 = 1 << 14;

impl<F: Format> Library<F> {
    /// A machine for sequences in this setting.
    ///
    /// # Errors
    /// What the host says: no memory, no membarrier.
    pub fn new(setting: Setting, path: Path) -> std::io::Result<Self> {
        Ok(Self { machine: SoftMachine::new(&Plan::small(1, FRAMES))?, setting, path })
    }

    fn layout(&self) -> Layout {
        let setting = &self.setting;
        let page = |addr: u64| VirtAddr(addr).vpn();
        Layout {
            areas: Areas {
                user: VpnRange::new(page(setting.min_addr), page(setting.task_end)),
                mmap_base: page(setting.mmap_base),
                legacy_base: page(setting.legacy_base),
                guard_pages: 256,
            },
            heap_start: VirtAddr(setting.start_brk),
            max_mappings: setting.max_mappings - setting.foreign_mappings + FOREIGN,
            max_promise_pages: setting.memory_pages,
        }
    }

    /// Fills what lies outside the windows with foreign mappings.
    fn fill(&self, space: &AddressSpace<'_, SoftMachine<Host, F>>) {
        let [low, main] = &self.setting.windows;
        let ends = [self.setting.min_addr, low.start, low.end, main.start, main.end, self.setting.task_end];
        for gap in ends.chunks(2).filter(|gap| gap[0] < gap[1]) {
            let request = MapRequest {
                place: Place::Fixed(VirtAddr(gap[0])),
                flags: VmaFlags::NORESERVE | VmaFlags::DONT_DUMP,
                sharing: Sharing::Private,
                ..MapRequest::anonymous(gap[1] - gap[0])
            };
            space.map(&request).expect("an empty space takes foreign mappings");
        }
    }
}

/// Foreign mappings that `fill` makes.
const FOREIGN: usize = 3;

/// All memory of a machine as one dirty region.
pub fn boot_map(machine: &impl HasRegions) -> BootMap {
    let regions: Vec<Region> = machine
        .regions()
        .iter()
        .map(|&(start, frames)| Region {
            start: start.addr(),
            len_bytes: frames * PAGE,
            purpose: Use::Usable(Init::Dirty),
            node: NodeId(0),
        })
        .collect();
    BootMap::new(&regions).expect("the arena's regions are sound")
}

/// A machine whose memory is known.
pub trait HasRegions {
    /// First frame and number of frames of each region.
    fn regions(&self) -> Vec<(Pfn, u64)>;
}

impl<C: crate::soft::Flavour, F: Format> HasRegions for SoftMachine<C, F> {
    fn regions(&self) -> Vec<(Pfn, u64)> {
        self.arena().regions().iter().map(|range| (range.start, range.len())).collect()
    }
}

impl<F: Format> System for Library<F> {
    fn name(&self) -> &str {
        "library"
    }

    fn run(&mut self, calls: &[Call]) -> Outcome {
        let _cpu = self.machine.enter(CpuId(0));
        let vm = Vm::new(&self.machine, boot_map(&self.machine)).expect("the machine has memory");
        let before = vm.memory().check().expect("frames add up at the start").handed_out;
        let outcome = {
            let space =
                AddressSpace::new(&vm, self.layout(), self.path).expect("there is memory for a space");
            self.fill(&space);
            let _running = space.run();
            let run = Run { machine: &self.machine, space: &space, setting: &self.setting };
            let answers = calls.iter().map(|call| run.call(call)).collect();
            Outcome { answers, map: run.map(), pages: run.pages() }
        };
        vm.trim();
        let after = vm.memory().check().expect("frames add up at the end").handed_out;
        assert_eq!(after, before, "frames handed out before and after");
        assert_eq!(self.machine.violations(), [], "the TLB saw the impossible");
        outcome
    }
}

struct Run<'a, 'v, F: Format> {
    machine: &'a SoftMachine<Host, F>,
    space: &'a AddressSpace<'v, SoftMachine<Host, F>>,
    setting: &'a Setting,
}

/// The space as the machine's fault handler; notes why a fault was refused.
struct Faults<'a, 'v, M: Machine> {
    space: &'a AddressSpace<'v, M>,
    why: Cell<Option<FaultError>>,
}

impl<M: Machine> FaultHandler for Faults<'_, '_, M> {
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        self.space.fault(Fault { addr, access }).map(drop).map_err(|error| {
            self.why.set(Some(error));
            Signal::Segv
        })
    }
}

impl<F: Format> Run<'_, '_, F> {
    fn call(&self, call: &Call) -> Answer {
        let value = |done: Result<u64, Error>| match done {
            Ok(value) => Answer::Value(value),
            Err(error) => Answer::Error(Errno(error.errno())),
        };
        let space = self.space;
        match *call {
            Call::Mmap { flags, .. } if flags.bits() & 0x20 == 0 => Answer::Error(Errno(9)),
            Call::Mmap { hint, len, prot, flags } => {
                value(linux::mmap(space, hint, len, prot.bits(), flags.bits()).map(|addr| addr.0))
            }
            Call::Munmap { addr, len } => value(linux::munmap(space, addr, len).map(|()| 0)),
            Call::Mprotect { addr, len, prot } => {
                value(linux::mprotect(space, addr, len, prot.bits()).map(|()| 0))
            }
            Call::Madvise { addr, len, advice } => {
                value(linux::madvise(space, addr, len, advice).map(|()| 0))
            }
            Call::Brk { addr } => Answer::Value(space.brk(VirtAddr(addr)).0),
            Call::Mincore { addr, len } => self.mincore(addr, len),
            Call::Read { addr } => self.access(addr, Access::Read, None),
            Call::Write { addr, value } => self.access(addr, Access::Write, Some(value)),
        }
    }

    fn mincore(&self, addr: u64, len: u64) -> Answer {
        let mut bytes = Vec::new();
        match self.space.mincore(VirtAddr(addr), len, |_, resident| bytes.push(u8::from(resident))) {
            Ok(()) => Answer::Resident(bytes, None),
            Err(Error::NoMemory) if self.leaves_user_space(addr, len) => Answer::Error(Errno(12)),
            Err(Error::NoMemory) => Answer::Resident(bytes, Some(Errno(12))),
            Err(error) => Answer::Error(Errno(error.errno())),
        }
    }

    fn leaves_user_space(&self, addr: u64, len: u64) -> bool {
        addr.checked_add(len).is_none_or(|end| end > self.setting.task_end)
    }

    fn access(&self, addr: u64, access: Access, store: Option<u8>) -> Answer {
        let faults = Faults { space: self.space, why: Cell::new(None) };
        let mut byte = [0];
        let done = match store {
            Some(value) => self.machine.write_bytes(VirtAddr(addr), &[value], &faults),
            None => self.machine.read_bytes(VirtAddr(addr), &mut byte, &faults),
        };
        match (done, access, faults.why.get()) {
            (Ok(()), Access::Write, _) => Answer::Written,
            (Ok(()), ..) => Answer::Byte(byte[0]),
            (Err(_), _, Some(FaultError::NotAllowed)) => Answer::Segv(Segv::Rights),
            (Err(_), ..) => Answer::Segv(Segv::Unmapped),
        }
    }

    fn map(&self) -> Vec<MapLine> {
        let mut seen: Vec<_> = Vec::new();
        let mut lines = Vec::new();
        self.space.each_vma(|vma: &VmaSpec| {
            let start = vma.range.start.addr().0;
            if !self.setting.windows.iter().any(|window| window.contains(&start)) {
                return;
            }
            let object = vma.backing.map(|backing| {
                let number = seen.iter().position(|&known| known == backing).unwrap_or_else(|| {
                    seen.push(backing);
                    seen.len() - 1
                });
                (number as u32, vma.offset * PAGE)
            });
            let prot = Prot::from_bits_retain((vma.flags & VmaFlags::ACCESS).bits());
            lines.push(MapLine { start, end: vma.range.end.addr().0, prot, object });
        });
        lines
    }

    fn pages(&self) -> Vec<(u64, PageState)> {
        let all = self.setting.looked_at().into_iter().flat_map(|range| range.step_by(PAGE as usize));
        all.filter_map(|addr| Some((addr, self.page(addr)?))).collect()
    }

    fn page(&self, addr: u64) -> Option<PageState> {
        let (pfn, shared) = self.space.resident_frame(Vpn(addr / PAGE))?;
        let mut bytes = vec![0; PAGE as usize];
        self.machine.read(pfn, 0, &mut bytes);
        Some(match pfn {
            _ if shared => PageState::Shared(fingerprint(&bytes)),
            zero if zero == self.space.vm().memory().zero_frame() => PageState::Zero,
            _ => PageState::Own(fingerprint(&bytes)),
        })
    }
}
