//! Interleaf: the part of a kernel that owns physical page frames, page tables, address spaces and page
//! faults, as a library: `no_std`, without an allocator, for any platform that implements two traits.
//!
//! **What it claims**: page faults take no lock of the address space (they speculate, and fall back under the
//! lock); unmapping returns when no CPU uses the old translation, after one flush; frame records of terabytes
//! are initialised by all CPUs, or on demand; safe code cannot corrupt memory through it. Each is measured or
//! checked by the project's own tests, models and benchmarks.
//!
//! # Quickstart
//!
//! A platform says where memory is ([`Machine`]) and what it knows of its CPU ([`Cpu`]); one CPU without
//! interrupts needs four methods for frames and tables, and two more for address spaces. Then:
//!
//! ```
//! use interleaf::units::Access;
//! use interleaf::{AddressSpace, BootMap, Fault, Layout, Machine, MapRequest, Outcome, Path, Vm};
//!
//! fn a_program<M: Machine>(machine: &M, memory: BootMap) -> Result<(), Box<dyn core::error::Error>> {
//!     let vm = Vm::new(machine, memory)?; // takes over all frames
//!     let space = AddressSpace::new(&vm, Layout::linux::<M::Format>(), Path::Speculative)?;
//!     let base = space.map(&MapRequest::anonymous(1 << 20))?; // mmap
//!     let active = space.activate(None); // this CPU translates through the space
//!     let fault = Fault { addr: base, access: Access::Write }; // what the trap handler was told
//!     assert_eq!(space.fault(fault), Ok(Outcome::Speculated)); // no lock of the space was taken
//!     space.unmap(base, 1 << 20)?; // returns when no CPU can use the old translation
//!     drop(active);
//!     Ok(())
//! }
//! ```
//!
//! Programs that run, platform included: `vm/examples/` (`frames`, `tables`, `jobs`, `embed`, `cpus`, `fork`,
//! `riscv`).
//! `docs/porting` leads through a platform rule by rule; [`machine::conformance`] tests it.
//!
//! # What is here
//!
//! | | start with | needs of the platform |
//! |---|---|---|
//! | frames: zones, CPU caches, NUMA policies, slab pools | [`Memory`] | a window onto memory |
//! | tables alone: map, unmap, protect, query | [`Mapper`] | the same, and a flush |
//! | formats: x86-64, AArch64, RISC-V, EPT | [`table::format`] | |
//! | spaces: anonymous, shared, huge, fork | [`Vm`], [`AddressSpace`] | an MMU; interrupts between CPUs |
//! | shootdown: one flush for each call, lazy CPUs | [`tlb`] | interrupts between CPUs |
//! | jobs over ranges, ordered queues | [`Job`], [`WorkerPool`] | helpers, else callers do all |
//! | locks, RCU, per-CPU data, lock order | [`sync`] | a barrier on all CPUs |
//!
//! Not here yet: files, mremap, mlock, stacks that grow, reclaim and swap, collapse of shared memory, and
//! splitting of large pages of a mapper.
//!
//! Up to 4 096 CPUs and 64 nodes, pages of 4 KiB, 64-bit targets. There are no features to choose.
//!
//! Comments cite the rules that hold between threads, CPUs and walkers as P1 to P12:
//! `docs/design/protocols.md` defines them.
//!
//! # Floors
//!
//! The modules are floors; each knows only the floors below it (`units` is the lowest):
//!
//! | floor | module | holds |
//! |---|---|---|
//! | 0 | [`units`] | addresses, page and frame numbers, ranges, CPU sets: plain values |
//! | 1 | [`machine`] | the contract a platform fulfils: [`machine::Cpu`] and [`machine::Machine`] |
//! | 2 | [`sync`] | the one door to shared memory: atomics, locks, per-CPU data, RCU |
//! | 3 | [`index`] | the index of mappings: an RCU B+tree of ranges, looked up without a lock |
//! | 3 | [`work`] | work described as a value, cut into chunks, done by several CPUs |
//! | 4 | [`frame`] | frame records, zones, per-CPU caches, slab pools, the zero page |
//! | 5 | [`table`] | entries, table pages, the lockless walk, movement over ranges |
//! | 5 | [`tlb`] | gather, shootdown, generations |
//! | 5 | [`object`] | memory that several mappings show, and which frame holds which page of it |
//! | 5 | [`vma`] | mappings and their index; merge and split as pure decisions |
//! | 5 | `anon` | the trees that forks make of spaces, for the reverse map |
//! | 6 | [`space`] | the address space: one file for each operation |
#![no_std]
#![warn(missing_debug_implementations)]
// No other check compiles the models.
#![cfg_attr(all(test, loom), deny(warnings))]

#[cfg(any(test, loom, feature = "mutants"))]
extern crate std;

#[macro_use]
mod mutant;

mod anon;
pub mod frame;
pub mod index;
pub mod machine;
pub mod object;
pub mod space;
pub mod sync;
pub mod table;
pub mod tlb;
pub mod units;
pub mod vma;
pub mod work;

pub use frame::{AllocRequest, BootMap, Memory};
pub use machine::{Context, Cpu, Machine};
pub use space::{AddressSpace, Fault, FaultError, Layout, MapRequest, Outcome, Path, Vm};
pub use table::{Mapper, PfnMapFrames};
pub use work::{Job, WorkerPool};

/// The fault entries of the porting guide, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../docs/porting/faults.md")]
mod porting {}

/// The new form of the porting guide's page on moving, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../docs/porting/moving.md")]
mod moving {}

/// The readme's example, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
