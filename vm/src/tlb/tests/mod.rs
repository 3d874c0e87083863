//! Tests of the floor. The models of the shootdown are declared in `shootdown`, whose fields they use.

mod gather;
mod mailbox;
