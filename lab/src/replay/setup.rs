//! The machine that lives are replayed on, and the address space of one.

use super::files::FileTable;
use super::huge_setting::HugeSetting;
use super::life::{Family, Life};
use super::memory_need::{self, frames_at_once};
use super::objects::{Object, Objects, ZeroPager};
use super::step::{Steps, stand_in_flags};
use crate::machine::host::Host;
use crate::machine::soft::boot_map;
use crate::machine::soft::{Fill, MachineConfig, SoftMachine};
use crate::trace::{Header, Image, LOWEST_HINT, Mapping, SWAP_BYTES, Sys};
use interleaf::space::{AddressSpace, Layout, MapBacking, MapRequest, Path, Place, Sharing, Vm, VmOptions};
use interleaf::table::format::X86;
use interleaf::units::{PAGE_SIZE, Pfn, PfnRange, VirtAddr, VpnRange};
use interleaf::vma::{Areas, VmaFlags};

/// The timed machine with x86-64 tables of four levels.
pub type ReplayMachine = SoftMachine<Host, X86<false>>;

const PAGE: u64 = PAGE_SIZE as u64;
/// Linux's default of `fault_around_bytes`.
const AROUND_BYTES: u64 = 64 << 10;
/// One past the last byte of user space.
const TASK_END: u64 = (1 << 47) - PAGE;
/// Linux's own rounding: a third of user space.
const LEGACY_BASE: u64 = TASK_END / 3 / PAGE * PAGE;

/// A machine of one CPU with so many frames of dirty memory.
pub fn machine(frames: u64) -> std::io::Result<ReplayMachine> {
    let first = Pfn(1 << 8);
    let regions = vec![PfnRange::new(first, first.add(frames))];
    SoftMachine::new(&MachineConfig { nr_cpus: 1, regions, fill: Fill::Dirty })
}

/// The system on that machine.
pub fn vm<'m>(
    machine: &'m ReplayMachine,
    huge: HugeSetting,
    files: &FileTable,
) -> Result<Vm<'m, ReplayMachine>, String> {
    let options = VmOptions {
        pager: Some(&ZeroPager),
        // Without a record of the page cache a load maps its page alone.
        fault_around_bytes: if files.is_cache_followed() { AROUND_BYTES } else { PAGE },
        huge_pages: huge.policy,
        mthp: huge.sizes(),
        shared_huge_pages: huge.shared,
        zero_page: huge.zero,
        ..VmOptions::default()
    };
    let vm = boot_map(machine).claim(machine).and_then(|memory| Vm::start(memory, options));
    vm.map_err(|error| format!("the machine cannot start: {error}"))
}

/// Frames that suffice for each of the families: those that it has at one time, and as many again for what
/// is freed and not free yet.
pub fn frames_for(header: &Header, families: &[Family], files: &FileTable, huge: HugeSetting) -> u64 {
    let max_mappings = max_mappings(header);
    let need = |family| {
        let may_be_huge = huge.may_apply(family);
        frames_at_once(family, files, memory_need::Setting { may_be_huge, max_mappings })
    };
    let most = families.iter().map(need).max().unwrap_or(0);
    most.saturating_mul(2).saturating_add(1 << 13).min(u64::MAX >> 13).next_multiple_of(1 << 10)
}

/// Layout of the address spaces of a family, as far as the trace has it: forks copy it.
///
/// Linux does not export where its downward search begins. The loader, which is mapped first, ends there; a
/// recorded choice above it is a better estimate.
pub fn layout(header: &Header, family: &Family) -> Layout {
    let (life, steps) = (&family.lives[0], &family.steps[0]);
    let setting = |name| setting(header, name);
    let stack = stack_of(&life.start);
    let loaded = life.start.mappings.iter().map(|m| m.end).filter(|&end| end < stack).max();
    let calls = family.steps.iter().flat_map(|steps| &steps.calls);
    let chosen = calls.filter(|call| call.act.is_free_choice()).map(|call| call.chosen_end());
    let below = |&end: &u64| end < stack && end <= TASK_END;
    let mmap_base = chosen.chain(loaded).filter(below).max().unwrap_or(TASK_END);
    let always = setting("overcommit_memory") == Some(1);
    let page = |addr: u64| VirtAddr(addr).vpn();
    // A privileged program may map below.
    let granted = family.steps.iter().flat_map(|steps| &steps.calls).filter(|call| call.sys == Sys::Mmap);
    let granted = granted.filter_map(|call| u64::try_from(call.expected).ok()).min().unwrap_or(u64::MAX);
    let lowest = setting("mmap_min_addr").unwrap_or(1 << 16).min(1 << 32).min(granted);
    Layout {
        areas: Areas {
            user: VpnRange::new(page(lowest), page(TASK_END)),
            mmap_base: page(mmap_base.max(lowest)),
            legacy_base: page(LEGACY_BASE),
        },
        heap_start: VirtAddr(heap_of(life, steps).clamp(lowest, TASK_END)),
        max_mappings: max_mappings(header) as usize,
        max_commit_pages: Some(if always { u64::MAX } else { commit_limit(header) }),
    }
}

/// The most pages that a request may commit on the recorded machine: its memory and swap, by the heuristic.
fn commit_limit(header: &Header) -> u64 {
    header.host.memory_bytes.saturating_add(setting(header, SWAP_BYTES).unwrap_or(0)) / PAGE
}

/// Most mappings of a space.
fn max_mappings(header: &Header) -> u64 {
    setting(header, "max_map_count").unwrap_or(65_530)
}

fn setting(header: &Header, name: &str) -> Option<u64> {
    let found = header.host.settings.iter().find(|(file, _)| file.ends_with(name));
    found.and_then(|(_, text)| text.trim().parse().ok())
}

/// The address that Linux takes lower hints for. Without a record of it: the higher of what programs without
/// privilege may map, and what most kernels are built with (`CONFIG_LSM_MMAP_MIN_ADDR`).
pub fn lowest_hint(header: &Header) -> u64 {
    let built_in = || setting(header, "mmap_min_addr").unwrap_or(0).max(1 << 16);
    setting(header, LOWEST_HINT).unwrap_or_else(built_in).min(1 << 32)
}

/// An address in the stack. The kernel shows 0 where the recorder lacks the right to see it.
fn stack_of(start: &Image) -> u64 {
    let mapped = || start.mappings.iter().find(|m| m.name == "[stack]").map_or(TASK_END, |m| m.start);
    if start.layout.start_stack == 0 { mapped() } else { start.layout.start_stack }
}

/// Start of the heap; where the kernel did not show it, what the first `brk` answered.
fn heap_of(life: &Life, steps: &Steps) -> u64 {
    let asked = steps.calls.iter().find(|call| call.sys == Sys::Brk).map(|call| call.expected as u64);
    let mapped = || life.start.mappings.iter().find(|m| m.name == "[heap]").map(|m| m.start);
    match life.start.layout.start_brk {
        0 => mapped().or(asked).unwrap_or(0),
        start => start,
    }
}

/// The space of a life that exec made, as it was then. Nothing is present yet.
pub fn space<'v>(
    vm: &'v Vm<'v, ReplayMachine>,
    layout: Layout,
    path: Path,
    life: &Life,
    objects: &Objects<'v>,
) -> Result<AddressSpace<'v, ReplayMachine>, String> {
    let space = AddressSpace::new(vm, layout, path).map_err(|error| format!("a new space: {error}"))?;
    space.set_thp_disable(life.thp_disable);
    for mapping in life.start.mappings.iter().filter(|m| m.end <= TASK_END) {
        let file = objects.of_mapping(mapping).map_err(|error| format!("{}: {error}", mapping.name))?;
        let mut request = request(mapping, file.as_ref());
        if mapping.name == "[heap]" {
            space.brk(VirtAddr(mapping.end));
            request.len_bytes = layout.heap_start.0.saturating_sub(mapping.start) & !(PAGE - 1);
            if request.len_bytes == 0 {
                continue;
            }
        }
        space.map(&request).map_err(|error| format!("the map at exec, {}: {error}", mapping.line()))?;
    }
    Ok(space)
}

fn request<'o>(mapping: &Mapping, file: Option<&'o Object<'_>>) -> MapRequest<'o> {
    let mut flags = VmaFlags::empty();
    flags.set(VmaFlags::READ, mapping.is_readable());
    flags.set(VmaFlags::WRITE, mapping.is_writable());
    flags.set(VmaFlags::EXECUTE, mapping.is_executable());
    flags |= if is_anonymous(mapping) || file.is_some() {
        said_flags(mapping) - VmaFlags::ACCOUNT
    } else {
        stand_in_flags(mapping.start.wrapping_sub(mapping.offset))
    };
    let pages = file.map(|object| object.at_page(mapping.offset / PAGE));
    MapRequest {
        backing: pages.unwrap_or(MapBacking::Anonymous),
        place: Place::FixedNoReplace(VirtAddr(mapping.start)),
        flags,
        sharing: if mapping.is_shared() { Sharing::Shared } else { Sharing::Private },
        ..MapRequest::anonymous(mapping.end - mapping.start)
    }
}

/// Whether a mapping of Linux's is private memory without a file.
pub fn is_anonymous(mapping: &Mapping) -> bool {
    let own =
        ["", "[heap]", "[stack]"].contains(&mapping.name.as_str()) || mapping.name.starts_with("[anon:");
    own && mapping.inode == 0 && !mapping.is_shared()
}

/// Linux's names for attributes, with ours.
const FLAG_WORDS: [(&str, VmaFlags); 10] = [
    ("ac", VmaFlags::ACCOUNT),
    ("nr", VmaFlags::NORESERVE),
    ("gd", VmaFlags::GROWS_DOWN),
    ("sr", VmaFlags::SEQUENTIAL_READ),
    ("rr", VmaFlags::RANDOM_READ),
    ("dc", VmaFlags::DONT_FORK),
    ("wf", VmaFlags::WIPE_ON_FORK),
    ("dd", VmaFlags::DONT_DUMP),
    ("hg", VmaFlags::HUGE_PAGE),
    ("nh", VmaFlags::NO_HUGE_PAGE),
];

/// The attributes that Linux shows of a mapping, beyond its rights.
pub fn said_flags(mapping: &Mapping) -> VmaFlags {
    let said = |word: &str| mapping.flags.split(' ').any(|flag| flag == word);
    FLAG_WORDS.iter().filter(|(word, _)| said(word)).fold(VmaFlags::empty(), |all, (_, flag)| all | *flag)
}

/// The same of ours.
pub fn shown_flags(flags: VmaFlags) -> VmaFlags {
    flags & FLAG_WORDS.iter().fold(VmaFlags::empty(), |all, (_, flag)| all | *flag)
}

/// The attributes in Linux's words.
pub fn flag_words(flags: VmaFlags) -> String {
    let words: Vec<&str> =
        FLAG_WORDS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(word, _)| *word).collect();
    if words.is_empty() { "-".to_string() } else { words.join(" ") }
}
