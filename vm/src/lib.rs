//! Interleaf: the part of a kernel that owns physical page frames, page tables, address spaces and page
//! faults.
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
//! | 4 | [`frame`] | frame records, zones, per-CPU caches, object pools, the zero page |
//! | 5 | [`table`] | entries, table pages, the lockless walk, movement over ranges |
//! | 5 | [`tlb`] | gather, shootdown, generations |
//! | 5 | [`object`] | memory that several mappings show, and which frame holds which page of it |
//! | 5 | [`vma`] | mappings and their index; merge and split as pure decisions |
//! | 6 | [`space`] | the address space: one file for each operation |
#![no_std]
#![warn(missing_debug_implementations)]

#[cfg(any(test, loom, feature = "mutants"))]
extern crate std;

#[macro_use]
mod mutant;

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

/// The readme's example, compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
