//! Tests of the decisions, drawn as pictures.

mod picture;
mod pictures;
mod placing;
mod racing;
mod small_worlds;
mod tree;
mod world;
