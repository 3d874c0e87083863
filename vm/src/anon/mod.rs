//! Floor 5: the trees that forks make of spaces, by the numbers of their nodes. Which space a node stands for
//! is a number here; what a space is, the floor above knows.
//!
//! | file | holds |
//! |---|---|
//! | `node` | nodes, by number |
//! | `tree` | a tree whose lock is held: its links |
//!
//! The record of a frame of anonymous memory names the node of the space that mapped it first
//! ([`AnonNodeId`](crate::frame::AnonNodeId)); `space/rmap` walks from there down. docs/design/reverse-map.md
//! has the protocol.

#![forbid(unsafe_code)]

mod node;
mod tree;

pub(crate) use node::AnonNodes;
pub(crate) use tree::{PlaceLost, STEPS, TreePlace};
