//! Which CPU has which line, and what it costs another to get it.
//!
//! One record for each line: its version, the CPU that has written it last, whether others have read that
//! version, in which clusters, and until when it is on its way. A write raises the version, so that all other
//! copies are stale without a list of them. The owner has its line; of a line of another's, a CPU knows in a
//! small set of its own which version it has read, and forgets: the set is direct-mapped.
//!
//! | line | owner loads, stores | another loads | another stores |
//! |---|---|---|---|
//! | owner alone | nothing | from the owner, queued; then shared | from the owner, queued |
//! | shared | nothing, the way to readers | from a reader's cluster, side by side | way to readers, queued |
//! | no CPU has it | | from memory, side by side | from memory, queued |
//!
//! A way is the time in which an exchange of one CPU follows that of another. What two CPUs of a real machine
//! do besides says how it is made up:
//!
//! - A turn of a store and of a load that waits for it takes as long as one of exchanges. So a copy takes
//!   half of the way ([`COPY`]), and the store of a CPU that has a copy the other half.
//! - Two CPUs that add to one word as fast as they can take a third of the way for each addition. A third of
//!   the way is the request's ([`REQUEST`]): so long the CPU that gives the line away has it still.

use super::addresses::{Addresses, LINES_OF_PAGE};
use super::machine::MemoryPlan;
use super::pages::{Heat, Pages};
use super::profile::{Costs, Ps};
use super::topology::{Distance, Topology};

/// A copy of a line, and a store to a line that a CPU has a copy of, take the way divided by this.
const COPY: Ps = 2;
/// A request takes the way divided by this.
const REQUEST: Ps = 3;

/// So long after its last way a line counts as one that is fought for: several ways.
const FOUGHT_FOR: Ps = 500_000;

/// No CPU.
const NO_CPU: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Until then it is on its way to its last taker.
    busy_until: Ps,
    /// The clusters in which CPUs have this version.
    clusters: u64,
    /// Its number plus 1; 0: the slot is empty.
    key: u32,
    version: u32,
    /// The CPU that wrote it last, or read it first.
    owner: u16,
    /// Whether others than the owner have this version.
    is_shared: bool,
    /// Whether a CPU waits for a write.
    is_watched: bool,
}

const EMPTY: Line = Line {
    busy_until: 0,
    clusters: 0,
    key: 0,
    version: 1,
    owner: NO_CPU,
    is_shared: false,
    is_watched: false,
};

/// Versions that a CPU has read: `line << 32 | version` in the slot of the line's low bits.
type ReadSet = Box<[u64]>;
const READ_SET: usize = 1 << 13;

/// How accesses got their lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// The CPU had it.
    pub hits: u64,
    /// Clean, from the last-level cache of its cluster.
    pub clean: u64,
    /// From memory.
    pub memory: u64,
    /// From, or by telling, a CPU of its cluster.
    pub cluster: u64,
    /// The same of another cluster of its node.
    pub node: u64,
    /// The same of another node.
    pub remote: u64,
}

/// A line that the CPU had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// Whether it has the line until another asks for it; no other has asked yet.
    pub(super) stays: bool,
    /// Whether a CPU waited for this write.
    pub(super) wakes: bool,
}

/// A line that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// When the CPU has it.
    pub(super) end: Ps,
    /// How long it had to queue before the way began.
    pub(super) queued: Ps,
    /// Whether it came from another CPU, rather than from memory.
    pub(super) is_shared: bool,
    /// Whether a CPU waited for this write.
    pub(super) wakes: bool,
}

/// All lines of a machine.
pub(super) struct Lines {
    costs: Costs,
    topology: Topology,
    memory: MemoryPlan,
    addresses: Addresses,
    pages: Pages,
    /// Open addressing, at most half full.
    table: Vec<Line>,
    len: usize,
    read_sets: Vec<ReadSet>,
    /// The line that each CPU gave away last, and until when it has it still.
    kept: Vec<(u32, Ps)>,
    pub(super) transfers: Transfers,
}

impl Lines {
    /// No CPU has a line.
    pub(super) fn new(costs: Costs, topology: Topology, nr_cpus: usize, memory: MemoryPlan) -> Self {
        let addresses = Addresses::new(memory.host.clone());
        Self {
            costs,
            memory,
            topology,
            addresses,
            pages: Pages::new(nr_cpus),
            table: vec![EMPTY; 1 << 12],
            len: 0,
            read_sets: (0..nr_cpus).map(|_| vec![0; READ_SET].into_boxed_slice()).collect(),
            kept: vec![(0, 0); nr_cpus],
            transfers: Transfers::default(),
        }
    }

    /// Number of lines that were touched.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The node of a CPU.
    pub(super) fn node_of(&self, cpu: u32) -> usize {
        self.topology.node(cpu) as usize
    }

    /// The number of the line at a host address.
    #[inline]
    pub(super) fn number(&mut self, addr: usize) -> u32 {
        self.addresses.line(addr)
    }

    /// The host address of a line.
    pub(super) fn host_address(&self, number: u32) -> usize {
        self.addresses.host_address(number)
    }

    /// Whether the CPU has the line as the access needs it: then no other hears of the access, but one that
    /// waits for a write to a line that is being given away.
    #[inline]
    pub(super) fn hit(&mut self, cpu: u32, number: u32, writes: bool, now: Ps) -> Option<Hit> {
        let at = self.find(number);
        if self.has_at(at, cpu, number, writes) {
            return Some(Hit { stays: true, wakes: false });
        }
        let is_kept = self.is_kept(cpu, number, now);
        is_kept.then(|| Hit { stays: false, wakes: writes && std::mem::take(&mut self.table[at].is_watched) })
    }

    /// Whether the line was on its way less than [`FOUGHT_FOR`] ago.
    #[inline]
    pub(super) fn is_fought_for(&mut self, number: u32, now: Ps) -> bool {
        let at = self.find(number);
        self.table[at].busy_until + FOUGHT_FOR > now
    }

    /// Whether the CPU gives the line away, and the request has not come yet.
    #[inline]
    fn is_kept(&self, cpu: u32, number: u32, now: Ps) -> bool {
        let (kept, until) = self.kept[cpu as usize];
        kept == number && now < until
    }

    #[inline]
    fn has_at(&self, at: usize, cpu: u32, number: u32, writes: bool) -> bool {
        let line = &self.table[at];
        if u32::from(line.owner) == cpu {
            return !writes || !line.is_shared;
        }
        !writes && self.has_copy(at, cpu, number)
    }

    /// Whether the CPU has the line as it is, and others may have it too.
    #[inline]
    fn has_copy(&self, at: usize, cpu: u32, number: u32) -> bool {
        let line = &self.table[at];
        u32::from(line.owner) == cpu
            || self.read_sets[cpu as usize][number as usize % READ_SET] == copy_of(number, line.version)
    }

    /// Takes the line for an access that begins at `now`.
    pub(super) fn take(&mut self, cpu: u32, number: u32, writes: bool, now: Ps) -> Taken {
        let at = self.find(number);
        if self.has_at(at, cpu, number, writes) || self.is_kept(cpu, number, now) {
            let wakes = writes && std::mem::take(&mut self.table[at].is_watched);
            return Taken { end: now, queued: 0, is_shared: false, wakes };
        }
        let (cost, is_shared) = self.way(at, cpu, number, writes);
        let line = &mut self.table[at];
        let here = self.topology.cluster_mask(cpu);
        // Copies are served side by side; a line that has one owner is handed on one at a time.
        let is_handed_on = writes || line.is_dirty_for(cpu);
        let start = if is_handed_on { now.max(line.busy_until) } else { now };
        let end = (start + cost).max(line.busy_until);
        if is_handed_on {
            line.busy_until = end;
            if is_shared && line.owner != NO_CPU {
                self.kept[usize::from(line.owner)] = (number, start + cost / REQUEST);
            }
        }
        let wakes = writes && std::mem::take(&mut line.is_watched);
        if writes {
            line.version = line.version.wrapping_add(1);
            (line.owner, line.is_shared, line.clusters) = (cpu as u16, false, here);
        } else {
            line.clusters |= here;
            match line.owner {
                NO_CPU => line.owner = cpu as u16,
                owner => line.is_shared |= u32::from(owner) != cpu,
            }
            self.read_sets[cpu as usize][number as usize % READ_SET] = copy_of(number, line.version);
        }
        Taken { end, queued: start - now, is_shared, wakes }
    }

    /// What the way of a line to the CPU costs, and whether it comes from other CPUs.
    fn way(&mut self, at: usize, cpu: u32, number: u32, writes: bool) -> (Ps, bool) {
        let (line, topology) = (&self.table[at], &self.topology);
        let (here, node) = (topology.cluster_mask(cpu), topology.node_mask(cpu));
        let distance = if line.is_dirty_for(cpu) {
            topology.distance(cpu, line.owner.into())
        } else if line.clusters == 0 {
            self.transfers.memory += 1;
            return (self.memory_cost(cpu, number), false);
        } else if !writes && line.clusters & here != 0 || writes && line.clusters == here && !line.is_shared {
            self.transfers.clean += 1;
            return (self.costs.llc, true);
        } else if writes && line.clusters & !node != 0 || !writes && line.clusters & node == 0 {
            Distance::Remote
        } else if line.clusters & !here != 0 {
            Distance::Node
        } else {
            Distance::Cluster
        };
        let (count, cost) = match distance {
            Distance::Cluster => (&mut self.transfers.cluster, self.costs.cluster),
            Distance::Node => (&mut self.transfers.node, self.costs.node),
            Distance::Remote => (&mut self.transfers.remote, self.costs.remote),
        };
        *count += 1;
        let is_half = !writes || self.has_copy(at, cpu, number);
        (if is_half { cost / COPY } else { cost }, true)
    }

    /// Memory outside of the machine's counts as of the CPU's node.
    fn memory_cost(&self, cpu: u32, number: u32) -> Ps {
        let page = number / LINES_OF_PAGE;
        let node = self.topology.node(cpu) / self.memory.merged.max(1);
        let is_remote = page < self.addresses.arena_pages() && page / self.memory.pages_of_node != node;
        if is_remote { self.costs.memory_remote } else { self.costs.memory }
    }

    /// The CPU writes a whole page: from now on it has all of its lines alone.
    pub(super) fn write_page(&mut self, cpu: u32, addr: usize) -> Heat {
        let page = self.number(addr) / LINES_OF_PAGE;
        let here = self.topology.cluster_mask(cpu);
        for number in self.pages.known_lines(page) {
            let at = self.find(number);
            let line = &mut self.table[at];
            line.version = line.version.wrapping_add(1);
            (line.owner, line.is_shared, line.clusters) = (cpu as u16, false, here);
        }
        self.pages.write(page, cpu, self.costs.warm_pages)
    }

    /// Notes that a CPU waits for a write to the line.
    pub(super) fn watch(&mut self, number: u32) {
        let at = self.find(number);
        self.table[at].is_watched = true;
    }

    #[inline]
    fn find(&mut self, number: u32) -> usize {
        let mask = self.table.len() - 1;
        let mut at = hash(number) & mask;
        loop {
            match self.table[at].key {
                0 => return self.insert(number, at),
                key if key == number + 1 => return at,
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[cold]
    fn insert(&mut self, number: u32, at: usize) -> usize {
        if (self.len + 1) * 2 > self.table.len() {
            self.grow();
            return self.find(number);
        }
        self.len += 1;
        let writer = self.pages.add_line(number);
        let (owner, clusters) =
            writer.map_or((NO_CPU, 0), |cpu| (cpu as u16, self.topology.cluster_mask(cpu)));
        self.table[at] = Line { key: number + 1, owner, clusters, ..EMPTY };
        at
    }

    fn grow(&mut self) {
        let size = self.table.len() * 2;
        let old = std::mem::replace(&mut self.table, vec![EMPTY; size]);
        for line in old.into_iter().filter(|line| line.key != 0) {
            let mut at = hash(line.key - 1) & (size - 1);
            while self.table[at].key != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = line;
        }
    }
}

impl Line {
    /// Whether another CPU has it alone.
    #[inline]
    fn is_dirty_for(&self, cpu: u32) -> bool {
        self.owner != NO_CPU && !self.is_shared && u32::from(self.owner) != cpu
    }
}

#[inline]
fn copy_of(number: u32, version: u32) -> u64 {
    u64::from(number) << 32 | u64::from(version)
}

#[inline]
fn hash(number: u32) -> usize {
    (u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

#[cfg(test)]
#[path = "tests/lines.rs"]
mod tests;
