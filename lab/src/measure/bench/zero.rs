//! What does memory cost that is only read, with the huge zero page?
//!
//! Counts: the frames, faults and tables of a program of the seed that reads 200 MB; the tables of 8 GB that
//! were read, beside the 16 MB that Linux keeps for as much (it puts a table aside for each huge entry), and
//! the faults of a memcmp of two halves of 4 GB, both with the huge zero page and with one table
//! of small zero pages in its place, which is a frame of the machine's and no program's; and what a warm
//! round misses with either, by the model of `interleaf zero`.

use super::{Bar, Benchmark, Figure, Options};
use crate::error::Failure;
use crate::measure::zero::{Geometry, LibraryRow, Misses, Pattern, Program, ZeroPage, measure, misses_of};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "zero",
    question: "What does memory cost that is only read?",
    figures: &[
        "zero.read_touch",
        "zero.read_touch_faults",
        "zero.read_touch_tables",
        "zero.tables_8g",
        "zero.tables_8g_virtual",
        "zero.compare_faults",
        "zero.compare_faults_virtual",
        "zero.misses_compare",
        "zero.misses_touch",
    ],
    run,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// Bytes of tables that Linux keeps for each byte that is mapped by huge entries: one for each.
const LINUX_TABLES: f64 = 4096.0 / (2 * MIB) as f64;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let touched = options.size(200 * MIB, 16 * MIB);
    let read = measure(Program::Read, ZeroPage::Huge, touched)?;
    let small = measure(Program::Read, ZeroPage::Small, touched)?;
    let large = options.size(8 * GIB, GIB);
    let [tables, tables_virtual] = each(|kind| Ok(measure(Program::Read, kind, large)?.table_bytes))?;
    let compared = options.size(8 * GIB, 256 * MIB);
    let [compare, compare_virtual] = each(|kind| Ok(measure(Program::Compare, kind, compared)?.faults))?;
    let LibraryRow { frames, faults, table_bytes, .. } = read;
    let nr_tables = (table_bytes / PAGE) as f64;
    Ok(vec![
        Figure::count_beside("zero.read_touch", frames as f64 - nr_tables, "frames", "small zero pages", 0.0)
            .with_bar(Bar::AtMost(512.0)),
        Figure::count_beside(
            "zero.read_touch_faults",
            faults as f64,
            "faults",
            "small zero pages",
            small.faults as f64,
        )
        .with_bar(Bar::AtMost((touched / (2 * MIB) + 1) as f64)),
        Figure::count_beside(
            "zero.read_touch_tables",
            nr_tables,
            "tables",
            "small zero pages",
            (small.table_bytes / PAGE) as f64,
        )
        .with_bar(Bar::AtMost(3.0)),
        tables_of("zero.tables_8g", tables, large, options),
        tables_of("zero.tables_8g_virtual", tables_virtual, large, options),
        faults_of("zero.compare_faults", compare, compared),
        faults_of("zero.compare_faults_virtual", compare_virtual, compared),
        misses("zero.misses_compare", Pattern::CompareHalves, large),
        misses("zero.misses_touch", Pattern::BytePerPage, large),
    ])
}

/// What is asked, of the huge zero page and of the table in its place.
fn each(ask: impl Fn(ZeroPage) -> Result<u64, Failure>) -> Result<[u64; 2], Failure> {
    Ok([ask(ZeroPage::Huge)?, ask(ZeroPage::Virtual)?])
}

/// Tables of memory that was read, beside those that Linux keeps.
fn tables_of(name: &'static str, bytes: u64, mapped: u64, options: &Options) -> Figure {
    let linux = mapped as f64 * LINUX_TABLES;
    Figure::count_against(name, bytes as f64, "bytes", "Linux, a table put aside for each huge entry", linux)
        .with_bar(Bar::AtMost(options.size(0.01, 0.05)))
}

/// Faults of a program that reads all of its memory, at most one for each huge page and one more, beside one
/// for each base page.
fn faults_of(name: &'static str, faults: u64, mapped: u64) -> Figure {
    Figure::count_beside(name, faults as f64, "faults", "a fault for each base page", (mapped / PAGE) as f64)
        .with_bar(Bar::AtMost((mapped / (2 * MIB) + 1) as f64))
}

/// Misses of the TLB and of the first-level cache, for 1 000 accesses of a warm round, beside those with the
/// shared table.
fn misses(name: &'static str, pattern: Pattern, len: u64) -> Figure {
    let per_mille = |kind| {
        let Misses { accesses, tlb, l1, .. } = misses_of(kind, pattern, len, Geometry::SEED);
        (tlb + l1) as f64 * 1000.0 / accesses as f64
    };
    let (huge, shared) = (per_mille(ZeroPage::Huge), per_mille(ZeroPage::Virtual));
    Figure::count_beside(name, huge, "misses/1000", "a shared table of small ones", shared)
}
