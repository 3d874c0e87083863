//! The scene of pairs of operations: two CPUs at once that run one space, on the seeded machine.
//!
//! A kind of memory says how the space is prepared, and what an operation does (`Operation`). Whatever that
//! is, afterwards all that the library keeps adds up, no TLB has seen the impossible, and every frame and
//! every page of the pool comes back.
//!
//! | file | kind |
//! |---|---|
//! | `huge` | huge pages, and mTHP folios |
//! | `shared_huge` | huge pages of shared memory |
//! | `pool` | the hugetlb pool |
//! | `file`, `file_operation` | a file that is written back |

mod file;
mod file_operation;
mod huge;
mod pool;
mod shared_huge;

pub use file::{all_files, run_file_pair};
pub use file_operation::FileOperation;
pub use huge::{
    HugeOperation, all_collapses, all_forks, all_huge, run_huge_cuts, run_huge_pair, run_size_cuts,
    run_size_pair,
};
pub use pool::{PoolOperation, all_pool, run_pool_pair};
pub use shared_huge::{ObjectOperation, all_objects, run_object_pair};

use crate::calls::{Call, CallResult};
use crate::disk::Disk;
use crate::drive::Driver;
use crate::huge::HUGE;
use crate::library::layout_of;
use crate::recount::QuiescentSystem;
use crate::setting::Setting;
use interleaf::frame::HugetlbCounts;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, MemlockLimit, Path, Vm, VmOptions};
use interleaf::units::{CpuId, PageSize};
use interleaf::vma::{HugePolicy, MthpPolicies, SharedHugePolicy};
use interleaf_lab::machine::baton::{Baton, Options, Program, Report, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// The machine that a pair is played on.
type Machine<F> = SoftMachine<Baton, F>;

/// What a scene has.
#[derive(Clone, Copy, Debug)]
struct Scene {
    /// Huge pages of the hugetlb pool.
    pub pool: u64,
    /// As many frames as so many huge pages take, beside those of the pool.
    pub huge: u64,
    /// Where faults install huge pages, and folios of which sizes.
    pub policies: (HugePolicy, MthpPolicies),
    /// Where they give shared memory huge pages.
    pub shared: SharedHugePolicy,
    /// The bytes of a file on a disk, if there is one.
    pub disk_bytes: Option<u64>,
}

/// What one CPU does.
trait Operation: Copy + Send + Sync + 'static {
    /// Prepares the space, which CPU 0 does not run yet.
    fn map<F: Format>(cpu: &Cpu<'_, '_, F>);
    /// Stores what is there before. The CPU runs the space.
    fn begin<F: Format>(cpu: &Cpu<'_, '_, F>);
    /// Does the operation, and asserts what holds of it.
    fn run<F: Format>(self, cpu: &Cpu<'_, '_, F>);
    /// Asserts what holds afterwards. No CPU runs the space any more.
    fn end<F: Format>(_cpu: &Cpu<'_, '_, F>) {}
}

/// What one CPU works with.
struct Cpu<'a, 'v, F: Format> {
    pub driver: Driver<'a, 'v, Baton, F>,
    /// Its number.
    pub cpu: u64,
    /// The seed of the run.
    pub seed: u64,
    pub limit: &'a MemlockLimit<Baton>,
    /// Rounds that are over, of what is done again and again.
    pub rounds: &'a AtomicU64,
    /// The disk, if there is one.
    pub disk: Option<&'a Disk>,
}

impl<'v, F: Format> Cpu<'_, 'v, F> {
    pub fn call(&self, call: Call) -> CallResult {
        self.driver.call(&call)
    }

    /// Whether this CPU touches the second huge page before: one of them, in every other run.
    pub fn begins_with_second(&self) -> bool {
        self.cpu == 1 && self.seed.is_multiple_of(2)
    }

    pub fn space(&self) -> &AddressSpace<'v, Machine<F>> {
        self.driver.space
    }
}

impl Scene {
    /// Plays a pair with each seed. Returns how many steps there were.
    ///
    /// # Errors
    /// The first seed that went wrong.
    pub fn play<F: Format, O: Operation>(self, pair: (O, O), seeds: Range<u64>) -> Result<u64, Box<Report>> {
        let options = Options { limit_steps: 2_000_000, keep: 80 };
        let played = explore(seeds, options, move |schedule| self.play_once::<F, O>(schedule, pair));
        played.map(|summary| summary.steps)
    }

    fn play_once<F: Format, O: Operation>(self, schedule: &Schedule, pair: (O, O)) {
        let ((policy, sizes), seed) = (self.policies, schedule.seed());
        let setting = Setting { memory_pages: 1 << 40, ..Setting::default() };
        let path = if seed.is_multiple_of(3) { Path::Locked } else { Path::Speculative };
        let config = MachineConfig::small(2, (self.pool + self.huge) * HUGE);
        let machine = Machine::<F>::new(&config).expect("a machine");
        let entered = machine.enter(CpuId(0));
        let disk = self.disk_bytes.map(Disk::new);
        let options = VmOptions {
            huge_pages: policy,
            mthp: sizes,
            shared_huge_pages: self.shared,
            fault_around_bytes: if seed.is_multiple_of(2) { 64 << 10 } else { 1 },
            pager: disk.as_ref().map(|disk| disk as _),
            ..VmOptions::default()
        };
        let memory = boot_map(&machine).claim(&machine).expect("no other system has it");
        let vm = Vm::start(memory, options).expect("memory");
        let mut all = HugetlbCounts::default();
        (all.total, all.free) = (self.pool, self.pool);
        assert_eq!(vm.resize_hugetlb(PageSize::Huge, self.pool), all);
        let before = vm.memory().check().expect("frames add up").allocated;
        let space = AddressSpace::new(&vm, layout_of(&setting), path).expect("memory for a space");
        drop(entered);
        let (limit, rounds) = (MemlockLimit::new(u64::MAX), AtomicU64::new(0));
        let driver = || Driver { machine: &machine, space: &space };
        let disk = disk.as_ref();
        let cpus =
            [0, 1].map(|cpu| Cpu { driver: driver(), cpu, seed, limit: &limit, rounds: &rounds, disk });
        let mut active = Vec::new();
        for cpu in &cpus {
            let _entered = machine.enter(CpuId(cpu.cpu as u32));
            if cpu.cpu == 0 {
                O::map(cpu);
            }
            active.push(space.activate(None));
            O::begin(cpu);
        }
        let program = |(cpu, operation): (usize, O)| -> Program<'_> {
            let cpu = &cpus[cpu];
            Box::new(move || operation.run(cpu))
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
        O::end(&cpus[0]);
        drop(space);
        vm.trim();
        let after = vm.memory().check().expect("frames add up at the end").allocated;
        assert_eq!(after, before, "frames handed out before and after");
        assert_eq!(vm.memory().hugetlb().counts(PageSize::Huge), all, "pages of the pool before and after");
    }
}
