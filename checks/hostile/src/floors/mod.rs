//! The calls, floor by floor as the library is built.

pub mod decide;
pub mod frame;
pub mod hugetlb;
pub mod index;
pub mod locks;
pub mod machine;
pub mod objects;
pub mod pagers;
pub mod pfnmap;
pub mod pin;
pub mod rcu;
pub mod records;
pub mod shared;
pub mod space;
pub mod spaces;
pub mod table;
pub mod tlb;
pub mod units;
pub mod visitors;
pub mod vma;
pub mod walk;
pub mod work;

/// Calls everything.
pub fn run_all() {
    run_one("units", units::run);
    run_one("machine", machine::run);
    run_one("shared", shared::run);
    run_one("locks", locks::run);
    run_one("rcu", rcu::run);
    run_one("records", records::run);
    run_one("frame", frame::run);
    run_one("table", table::run);
    run_one("index", index::run);
    run_one("work", work::run);
    run_one("vma", vma::run);
    run_one("decide", decide::run);
    run_one("tlb", tlb::run);
    run_one("space", space::run);
    run_one("spaces", spaces::run);
    run_one("visitors", visitors::run);
}

/// Calls a module, and says which where a call hangs or ends the process.
fn run_one(name: &str, run: fn()) {
    println!("hostile calls: {name}");
    run();
}
