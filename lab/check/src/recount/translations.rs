//! No TLB holds what the tables do not say: no freed frame, no wrong one, no right that was taken away,
//! no dead table.

use super::system::{QuiescentSystem, require};
use super::walk::{Seen, Walked};
use interleaf::machine::{Entry, Format, Leaf};
use interleaf::space::AddressSpace;
use interleaf::units::{CpuId, Level, Pfn, Vpn};
use interleaf_lab::machine::soft::{Flavour, SoftMachine, Translation};
use std::collections::{BTreeMap, BTreeSet};

/// The tables of one space.
struct Tables {
    leaves: BTreeMap<Vpn, (Level, Leaf)>,
    tables: BTreeSet<(Level, Pfn)>,
}

/// Every page in the TLB of a CPU that runs a space is in the space's tables with the same frame and no fewer
/// rights; every table it holds is one of them. The TLB of a CPU that runs no space is empty.
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    walked: &Walked,
) -> Result<(), String> {
    for cpu in (0..system.machine.bus().nr_cpus()).map(CpuId) {
        let mut runs =
            system.spaces.iter().zip(0..).filter(|(space, _)| space.inspect().cpus_racy().contains(cpu));
        let space = runs.next();
        require(runs.next().is_none(), || format!("{cpu:?} runs two spaces"))?;
        let tables = space.map_or_else(Tables::none, |(space, nr)| Tables::of(space, walked.space(nr)));
        let space = space.map(|(space, _)| space);
        check_cpu(system, cpu, &tables).map_err(|wrong| format!("{cpu:?} on {space:?}: {wrong}"))?;
    }
    Ok(())
}

fn check_cpu<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    cpu: CpuId,
    tables: &Tables,
) -> Result<(), String> {
    let (mut pages, mut upper) = (Vec::new(), Vec::new());
    let told = system.machine.inspect(cpu, |page| pages.push(page), |level, pfn| upper.push((level, pfn)));
    told.map_err(|running| running.to_string())?;
    pages.iter().try_for_each(|page| tables.check_page(page))?;
    upper.iter().try_for_each(|&(level, pfn)| {
        let known = level.below().is_some_and(|below| tables.tables.contains(&(below, pfn)));
        require(known, || format!("remembers the table {pfn:?} from an entry of {level:?}"))
    })
}

impl Tables {
    fn none() -> Self {
        Self { leaves: BTreeMap::new(), tables: BTreeSet::new() }
    }

    fn of<C: Flavour, F: Format>(
        space: &AddressSpace<'_, SoftMachine<C, F>>,
        entries: impl Iterator<Item = Seen>,
    ) -> Self {
        let mut tables = Self::none();
        entries.for_each(|seen| match seen {
            Seen::Table { pfn, level, .. } => {
                tables.tables.insert((level, pfn));
            }
            // The hardware walks on, and finds the zero page.
            Seen::Entry { page, level, entry: Entry::Leaf(leaf) } if leaf.by_table() => {
                tables.tables.insert((Level::Pte, leaf.pfn));
                let shown = Leaf::new(space.vm().memory().zero_frame(), leaf.rights);
                let pages = (0..level.entry_pages()).map(|nr| (page.add(nr), (Level::Pte, shown)));
                tables.leaves.extend(pages);
            }
            Seen::Entry { page, level, entry: Entry::Leaf(leaf) } => {
                tables.leaves.insert(page, (level, leaf));
            }
            Seen::Entry { .. } => {}
        });
        tables
    }

    fn check_page(&self, page: &Translation) -> Result<(), String> {
        let Some((level, leaf)) = self.leaves.get(&page.vpn) else {
            return Err(format!("remembers {page:?}, which is not in the tables"));
        };
        let agrees = level.leaf_size() == Some(page.size)
            && leaf.pfn == page.pfn
            && leaf.rights.contains(page.rights)
            && (leaf.dirty || !page.dirty);
        require(agrees, || format!("remembers {page:?}, the tables say {leaf:?}"))
    }
}
