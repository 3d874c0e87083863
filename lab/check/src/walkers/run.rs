//! One walker beside two writers on the seeded machine.

use super::walker::{Pins, Scene, Walker};
use super::writers::{BASE, Memory, Writer, prepare};
use crate::drive::Driver;
use crate::library::layout_of;
use crate::recount::QuiescentSystem;
use crate::setting::Setting;
use interleaf::machine::Format;
use interleaf::space::{
    Active, AddressSpace, MapBacking, MapRequest, MemlockLimit, Path, Place, Sharing, Vm, VmOptions,
};
use interleaf::table::PfnMapFrames;
use interleaf::units::{CpuId, PageSize, Pfn, VirtAddr};
use interleaf::vma::{HugePolicy, ZeroPagePolicy};
use interleaf_lab::machine::baton::{Baton, Options, Program, Report, Schedule, Summary, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;

type Machine<F> = SoftMachine<Baton, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;

/// A seed that went wrong, and how to see it again.
#[derive(Debug)]
pub struct WalkFailure {
    /// What walked.
    pub walker: Walker,
    /// What.
    pub memory: Memory,
    /// Beside which writer; the other one is the seed's.
    pub writer: Writer,
    /// The verdict and the last steps.
    pub report: Report,
}

impl fmt::Display for WalkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { walker, memory, writer, report } = self;
        let variation = Variation::of_seed(*walker, *memory, report.seed);
        writeln!(f, "{walker:?} of {memory:?} memory beside {writer:?}, {variation:?}:")?;
        write!(f, "{report}")
    }
}

/// Frames of the machine.
const FRAMES: u64 = 512;
/// The most steps that a walker takes before it stops.
const MOST_STEPS: u64 = 400;

/// What a seed decides beside the schedule.
#[derive(Clone, Copy, Debug)]
struct Variation {
    /// The second writer.
    other: Writer,
    path: Path,
    /// Whether the walker's CPU runs the space.
    runs: bool,
    /// The steps after which the walker stops.
    stops_after: Option<u64>,
}

impl Variation {
    fn of_seed(walker: Walker, memory: Memory, seed: u64) -> Self {
        let writers = memory.writers();
        let other = writers[(seed % writers.len() as u64) as usize];
        let path = if seed & 1 == 0 { Path::Speculative } else { Path::Locked };
        let runs = walker == Walker::CallChain || seed & 2 == 0;
        let stops = walker.may_stop() && seed & 4 == 0;
        let steps = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        Self { other, path, runs, stops_after: stops.then_some(steps % MOST_STEPS) }
    }
}

/// Plays a walker beside a writer with each seed; a seed decides the other writer, the variation and the
/// schedule. Returns what was played.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_walker<F: Format>(
    (walker, memory, writer): (Walker, Memory, Writer),
    seeds: Range<u64>,
) -> Result<Summary, Box<WalkFailure>> {
    let options = Options { limit_steps: 400_000, keep: 80 };
    let played = explore(seeds, options, move |schedule| scenario::<F>(schedule, walker, memory, writer));
    played.map_err(|report| Box::new(WalkFailure { walker, memory, writer, report: *report }))
}

fn scenario<F: Format>(schedule: &Schedule, walker: Walker, memory: Memory, writer: Writer) {
    let variation = Variation::of_seed(walker, memory, schedule.seed());
    let setting = Setting { memory_pages: 1 << 40, ..Setting::default() };
    let machine = Machine::<F>::new(&MachineConfig::small(3, FRAMES)).expect("a machine");
    let pfnmap = machine.frames_of_no_memory(PageSize::Giant.pages()).expect("frames");
    let cpu = machine.enter(CpuId(0));
    let mut options = VmOptions::default();
    if memory == Memory::Zeros {
        (options.huge_pages, options.zero_page) = (HugePolicy::Always, ZeroPagePolicy::Virtual);
    }
    let claimed = boot_map(&machine).claim(&machine).expect("no other system has it");
    let vm = Vm::start(claimed, options).expect("memory");
    let before = vm.memory().check().expect("frames add up at the start").allocated;
    let space = AddressSpace::new(&vm, layout_of(&setting), variation.path).expect("memory for a space");
    // A check that fails leaves the space as it is.
    let space = ManuallyDrop::new(space);
    let limit = MemlockLimit::new(u64::MAX);
    let scene = Scene { space: &space, memory, pfnmap: pfnmap.frames().start, limit: &limit };
    let active = ManuallyDrop::new(RefCell::new(Vec::new()));
    drop(cpu);
    for cpu in 0..3 {
        let _cpu = machine.enter(CpuId(cpu));
        if cpu < 2 || variation.runs {
            active.borrow_mut().push((cpu, space.activate(None)));
        }
        if cpu == 0 {
            let driver = Driver { machine: &machine, space: &space };
            prepare(&driver, memory, |space| map_leaf(space, memory, &pfnmap));
        }
    }
    let pins: ManuallyDrop<RefCell<Pins<'_, '_, F>>> = ManuallyDrop::default();
    let writes = |writer: Writer| -> Program<'_> {
        let driver = Driver { machine: &machine, space: &space };
        Box::new(move || writer.play(&driver, memory))
    };
    let walks: Program<'_> = Box::new(|| walker.walk(&scene, &mut pins.borrow_mut()));
    if let Some(steps) = variation.stops_after {
        schedule.stop_for_ever(CpuId(2), steps);
    }
    schedule.run(&machine, vec![writes(writer), writes(variation.other), walks]);
    let cpu = machine.enter(CpuId(0));
    drop(ManuallyDrop::into_inner(pins));
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path: variation.path }.must_hold();
    drop(cpu);
    leave_all(&machine, ManuallyDrop::into_inner(active).into_inner(), &vm);
    let _cpu = machine.enter(CpuId(0));
    drop(ManuallyDrop::into_inner(space));
    vm.trim();
    let after = vm.memory().check().expect("frames add up at the end").allocated;
    // The table of zeros stays.
    let kept = vm.memory().zero_pages().table_frames();
    assert_eq!(after, before + kept, "frames handed out before and after");
}

/// Each CPU leaves the space that it runs.
fn leave_all<'v, F: Format>(
    machine: &Machine<F>,
    active: Vec<(u32, Active<'_, 'v, Machine<F>>)>,
    vm: &Vm<'v, Machine<F>>,
) {
    for (cpu, running) in active {
        let _cpu = machine.enter(CpuId(cpu));
        drop(running);
        vm.trim();
    }
}

/// Maps the frames by one leaf.
fn map_leaf<F: Format>(space: &Space<'_, F>, memory: Memory, pfnmap: &PfnMapFrames) {
    let Some(size) = memory.leaf() else { return };
    let request = MapRequest {
        place: Place::Fixed(VirtAddr(BASE)),
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(size.bytes())
    };
    let first: Pfn = pfnmap.frames().start;
    space
        .map(&request.backed_by(MapBacking::Pfn { frames: pfnmap, first, largest: size }))
        .expect("it is free");
}
