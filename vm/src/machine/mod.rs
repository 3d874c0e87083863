//! Floor 1: the contract that a platform implements. No implementation is here.
//!
//! Two traits. [`Cpu`] has no self: it has the operations of running code on its CPU and its thread, without
//! naming a machine; the lab implements it by thread-locals, a kernel by GS. [`Machine`] is taken as
//! `&self`: physical memory, the MMU, interrupts to other CPUs. Everything above is generic over one
//! parameter `M: Machine`; the embedder writes one type alias.
//!
//! [`Format`] describes the bits of table entries as data: instructions belong to a machine, bits to the
//! library, so they are tested on any host.
//!
//! The rules that an implementation must keep are numbered at the traits and tested by [`conformance`]. What
//! one CPU without interrupts answers in one way only has a default: a platform for frames alone writes
//! `CpuWords` and `with_context`, its window both ways, and `claim_memory`.
//!
//! | file | holds |
//! |---|---|
//! | `cpu` | the trait [`Cpu`], the observation hook |
//! | `contract` | the trait [`Machine`], and [`Callback`], the functions that it calls |
//! | `context` | the library's state of each thread |
//! | `flush` | [`FlushRange`], the pages of a flush |
//! | `format` | the trait [`Format`], and the kinds of entries |
//! | `root_table` | [`RootTable`], a root that a CPU may load |
//! | `word_copy` | copies of frames' bytes by atomic words, the default of a machine |
//! | `conformance` | a suite that tests a platform's `Cpu` and `Machine` |
//! | `testing` | the CPU and machine of unit tests and models |

pub mod conformance;
mod context;
mod contract;
mod cpu;
mod flush;
mod format;
mod root_table;
#[cfg(any(test, loom))]
pub mod testing;
mod word_copy;

pub use context::{Context, Rank};
pub use contract::{Callback, Machine, TablePage};
pub use cpu::{AccessKind, Cpu, Irq};
pub use flush::FlushRange;
pub use format::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
pub use root_table::RootTable;
