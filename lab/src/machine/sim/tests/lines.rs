//! What a line costs, by the CPU that had it.

use super::super::{Placement, Profile};
use super::*;
use std::ops::Range;

const PAGE: usize = 4096;
/// Far from the machine's memory.
const ARENA: Range<usize> = 1 << 30..(1 << 30) + 8 * PAGE;

/// Four CPUs in two clusters of one node, and four on another node.
fn lines() -> Lines {
    let mut costs = Profile::built_in("epyc-milan").unwrap().costs;
    (costs.cluster_cpus, costs.node_cpus) = (2, 4);
    let memory = MemoryPlan { host: ARENA, pages_of_node: 4, merged: 1 };
    Lines::new(costs, Topology::new(&costs, 8, Placement::Filled), 8, memory)
}

fn cost(lines: &mut Lines, cpu: u32, line: u32, writes: bool, now: Ps) -> Ps {
    if lines.hit(cpu, line, writes, now).is_some() { 0 } else { lines.take(cpu, line, writes, now).end - now }
}

#[test]
fn a_line_comes_from_where_it_is() {
    let mut lines = lines();
    let costs = lines.costs;
    let line = lines.number(ARENA.start);
    let remote = lines.number(ARENA.start + 4 * PAGE);
    assert_eq!(cost(&mut lines, 0, line, false, 0), costs.memory);
    assert_eq!(cost(&mut lines, 0, remote, false, 0), costs.memory_remote);
    assert_eq!(cost(&mut lines, 0, line, true, 0), 0, "it was alone");
    let now = 1_000_000;
    assert_eq!(cost(&mut lines, 1, line, true, now), costs.cluster);
    assert_eq!(cost(&mut lines, 2, line, true, 2 * now), costs.node);
    assert_eq!(cost(&mut lines, 4, line, true, 3 * now), costs.remote);
    assert_eq!(cost(&mut lines, 5, line, false, 4 * now), costs.cluster / COPY);
    assert_eq!(cost(&mut lines, 5, line, false, 5 * now), 0, "it has a copy");
    assert_eq!(cost(&mut lines, 0, line, false, 5 * now), costs.remote / COPY);
    assert_eq!(cost(&mut lines, 1, line, false, 6 * now), costs.llc, "its cluster has a copy");
    assert_eq!(
        cost(&mut lines, 4, line, true, 7 * now),
        costs.remote / COPY,
        "it has a copy, as CPUs far away"
    );
    assert_eq!(cost(&mut lines, 1, line, false, 8 * now), costs.remote / COPY);
    let Transfers { memory, clean, cluster, node, remote, .. } = lines.transfers;
    assert_eq!((memory, clean, cluster, node, remote), (2, 1, 2, 1, 4));
}

#[test]
fn writers_queue_and_readers_do_not() {
    let mut lines = lines();
    let (cluster, line) = (lines.costs.cluster, lines.number(12_345));
    cost(&mut lines, 0, line, true, 0);
    let now = 1_000_000;
    let first = lines.take(1, line, true, now);
    let second = lines.take(2, line, true, now);
    assert_eq!((first.end, first.queued), (now + cluster, 0));
    assert_eq!((second.end, second.queued), (now + cluster + lines.costs.node, cluster));
    let now = 2_000_000;
    let first = lines.take(0, line, false, now);
    let second = lines.take(1, line, false, now);
    assert_eq!((first.queued, second.queued, second.end), (0, 0, first.end), "both come with the first");
}

#[test]
fn a_cpu_has_a_line_until_it_is_asked_for_it() {
    let mut lines = lines();
    let (cluster, line) = (lines.costs.cluster, lines.number(12_345));
    cost(&mut lines, 0, line, true, 0);
    let now = 1_000_000;
    let taken = lines.take(1, line, true, now);
    let mut has = |cpu, at| lines.hit(cpu, line, true, at).is_some();
    assert!(has(0, now + cluster / REQUEST - 1) && !has(0, now + cluster / REQUEST));
    assert!(has(1, taken.end));
}

#[test]
fn the_cpu_that_writes_a_whole_page_has_its_lines() {
    let mut lines = lines();
    let (first, last) = (lines.number(ARENA.start), lines.number(ARENA.start + PAGE - 1));
    cost(&mut lines, 1, first, true, 0);
    assert_eq!(lines.write_page(0, ARENA.start), Heat::Cold);
    assert!(
        lines.hit(0, first, true, 0).is_some()
            && lines.hit(0, last, true, 0).is_some()
            && lines.hit(1, first, false, 0).is_none()
    );
    assert_eq!(lines.write_page(0, ARENA.start), Heat::Warm);
    for _ in 0..lines.costs.warm_pages {
        lines.write_page(0, ARENA.start + PAGE);
    }
    assert_eq!(lines.write_page(0, ARENA.start), Heat::Cold, "other pages have come between");
    assert_eq!(lines.write_page(1, ARENA.start), Heat::Cold, "it is in another CPU's caches");
}

#[test]
fn numbers_do_not_depend_on_where_memory_lies() {
    let numbers = |offset: usize| {
        let mut lines = lines();
        [5, 70, 9_000_000, 5 + 64, 9_000_064].map(|addr| lines.number(addr * PAGE + offset * PAGE + 640))
    };
    assert_eq!(numbers(0), numbers(3));
    let mut lines = lines();
    let line = lines.number(77 * PAGE + 640);
    assert_eq!(lines.host_address(line), 77 * PAGE + 640);
    let own = lines.number(ARENA.start + PAGE + 65);
    assert_eq!(lines.host_address(own), ARENA.start + PAGE + 64);
}
