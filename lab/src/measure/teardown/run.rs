//! One run: a space is filled, and cleared while another CPU walks.

use super::Way;
use crate::error::Failure;
use crate::machine::host::{Host, TaskSpace, with_switch_notifier};
use crate::machine::soft::Flavour;
use crate::measure::Options;
use crate::measure::bench::pinned_threads;
use crate::measure::timed_machine::{self, TimedMachine};
use hdrhistogram::Histogram;
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapBacking, MapRequest, Path, Sharing, Vm};
use interleaf::table::format::X86_64;
use interleaf::table::{PfnMapFrames, walk};
use interleaf::units::{Access, CpuId, Level, PAGE_SIZE, PageSize, VirtAddr, Vpn};
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages in which the second CPU faults: more than it touches while the first unmaps.
const FAULTED: u64 = 1 << 14;

/// What one run took.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From the call to its return.
    pub ns: f64,
    /// Interrupts between CPUs meanwhile.
    pub interrupts: u64,
    /// Flushes.
    pub flushes: u64,
    /// Walks by the other CPU, and the longest in nanoseconds.
    pub walks: u64,
    /// See `walks`.
    pub longest_walk_ns: u64,
    /// Faults by the other CPU: the wait that 999 of 1 000 do not exceed, and the longest, in nanoseconds.
    pub faults_ns: Option<[u64; 2]>,
}

/// A space with `entries` huge leaves, to be made and cleared any number of times.
pub struct Unmapping<'o> {
    options: &'o Options,
    cpus: &'o [usize],
    entries: u64,
    words: Vec<AtomicU64>,
}

impl<'o> Unmapping<'o> {
    /// Nothing is made yet.
    pub fn new(options: &'o Options, entries: u64) -> Self {
        let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
        Self { options, cpus, entries, words: (0..entries).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Makes a machine with memory for the tables and a space, and clears its entries one way.
    ///
    /// # Errors
    /// What the host or the library says.
    pub fn run(&self, way: Way) -> Result<Measured, Failure> {
        let machine = timed_machine::machine(self.options, self.entries / 256 + FAULTED + 4096)?;
        let frames = self.entries * PageSize::Huge.pages();
        let lacks = || Failure::usage(format!("{} huge pages: more than there are frames", self.entries));
        let pfnmap = machine.frames_of_no_memory(frames).ok_or_else(lacks)?;
        if way == Way::ByJob {
            return timed_machine::with_helpers(self.options, &machine, |_, vm| {
                let scene = self.scene(vm, &pfnmap, way)?;
                let running = scene.space.activate(None);
                let measured = scene.clear();
                drop(running);
                Ok(measured)
            })?;
        }
        let entered = machine.enter(CpuId(0));
        let vm = timed_machine::vm(&machine)?;
        let scene = self.scene(&vm, &pfnmap, way)?;
        drop(entered);
        let measured = scene.play();
        let _entered = machine.enter(CpuId(0));
        drop(scene);
        Ok(measured)
    }

    fn scene<'a, 'v>(
        &'a self,
        vm: &'v Vm<'v, TimedMachine>,
        pfnmap: &PfnMapFrames,
        way: Way,
    ) -> Result<Scene<'a, 'v>, Failure> {
        let space = AddressSpace::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
            .map_err(Failure::of)?;
        let faulted = space.map(&MapRequest::anonymous(FAULTED * PAGE)).map_err(Failure::of)?;
        let request = MapRequest {
            sharing: Sharing::Shared,
            ..MapRequest::anonymous(self.entries * PageSize::Huge.bytes())
        };
        let first = pfnmap.frames().start;
        let base = space
            .map(&request.backed_by(MapBacking::Pfn { frames: pfnmap, first, largest: PageSize::Huge }))
            .map_err(Failure::of)?;
        Ok(Scene { unmapping: self, vm, space, base, faulted, way })
    }
}

struct Scene<'a, 'v> {
    unmapping: &'a Unmapping<'a>,
    vm: &'v Vm<'v, TimedMachine>,
    space: AddressSpace<'v, TimedMachine>,
    base: VirtAddr,
    faulted: VirtAddr,
    way: Way,
}

impl Scene<'_, '_> {
    fn play(&self) -> Measured {
        let (ready, done) = (AtomicBool::new(self.unmapping.cpus.len() < 2), AtomicBool::new(false));
        let parts = [Mutex::new(Measured::default()), Mutex::new(Measured::default())];
        let note = |part: usize, measured| *parts[part].lock().expect("no thread panics") = measured;
        pinned_threads::together(self.unmapping.cpus, |index| {
            let _entered = self.vm.machine().enter(CpuId(index as u32));
            self.as_task(index, || {
                if index > 0 {
                    note(1, self.beside(&ready, &done));
                } else {
                    wait(&ready);
                    note(0, self.clear());
                    done.store(true, Release);
                }
            });
        });
        let [cleared, beside] = parts.map(|part| part.into_inner().expect("no thread panics"));
        let Measured { walks, longest_walk_ns, faults_ns, .. } = beside;
        Measured { walks, longest_walk_ns, faults_ns, ..cleared }
    }

    /// Runs `work` on a CPU that has the space loaded, where the way says so.
    fn as_task(&self, index: usize, work: impl FnOnce()) {
        let runs = match self.way {
            Way::RunHere => index == 0,
            Way::RunTwice => true,
            Way::Words | Way::InterruptForEach | Way::RunNowhere | Way::ByJob => false,
        };
        if runs {
            let running = TaskSpace::new(&self.space);
            with_switch_notifier(&running, work);
        } else {
            work();
        }
    }

    fn clear(&self) -> Measured {
        let (machine, words) = (self.vm.machine(), &self.unmapping.words);
        words.iter().for_each(|word| word.store(1, Relaxed));
        let (sent, flushes) = (self.vm.shootdown_stats(), self.vm.totals());
        let clear = |word: &AtomicU64| assert_eq!(word.swap(0, Relaxed), 1, "a word is cleared twice");
        let start = Instant::now();
        let mut barriers = 0;
        match self.way {
            Way::Words => words.iter().for_each(clear),
            Way::InterruptForEach => words.iter().for_each(|word| {
                clear(word);
                machine.barrier_all();
                barriers += 1;
            }),
            Way::RunNowhere | Way::RunHere | Way::RunTwice | Way::ByJob => {
                let len_bytes = self.unmapping.entries * PageSize::Huge.bytes();
                self.space.unmap(self.base, len_bytes).expect("it is mapped");
            }
        }
        let ns = start.elapsed().as_nanos() as f64;
        let interrupts = self.vm.shootdown_stats().since(&sent).sent + barriers;
        let flushes = self.vm.totals().get(Counter::TlbFlush) - flushes.get(Counter::TlbFlush);
        Measured { ns, interrupts, flushes, ..Measured::default() }
    }

    /// Walks, and faults where this CPU runs the space, until the other is done: each page once.
    fn beside(&self, ready: &AtomicBool, done: &AtomicBool) -> Measured {
        let mut walks = Measured::default();
        let mut faults = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        let pages = self.unmapping.entries * PageSize::Huge.pages();
        let mut random = 1u64;
        for page in 0.. {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let start = Instant::now();
            self.walk(Vpn(self.base.vpn().0 + (random >> 16) % pages));
            walks.longest_walk_ns = walks.longest_walk_ns.max(start.elapsed().as_nanos() as u64);
            walks.walks += 1;
            if self.way == Way::RunTwice && page < FAULTED {
                let start = Instant::now();
                let addr = VirtAddr(self.faulted.0 + page * PAGE);
                self.space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
                faults.saturating_record(start.elapsed().as_nanos() as u64);
            }
            Host::boundary();
            ready.store(true, Release);
            if done.load(Acquire) {
                break;
            }
        }
        let waits = [faults.value_at_quantile(0.999), faults.max()];
        walks.faults_ns = (self.way == Way::RunTwice).then_some(waits);
        walks
    }

    /// A walk as of a hypervisor that looks up a guest's page: no lock, each entry read once.
    fn walk(&self, page: Vpn) {
        let reading = self.vm.read();
        std::hint::black_box(walk(self.space.inspect().page_table(), page, Level::Pte, &reading).word);
    }
}

fn wait(ready: &AtomicBool) {
    while !ready.load(Acquire) {
        Host::boundary();
        spin_loop();
    }
}
