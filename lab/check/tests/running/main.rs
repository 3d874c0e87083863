//! The library in use: threads, nodes, scarce memory, events, workloads, and the checkers themselves.

mod events;
mod fault;
mod nodes;
mod recount;
mod scarce;
mod secrets;
mod stress;
mod walk_nmi;
