//! Tests of the floor. The models of the shootdown are declared in `shootdown`, whose fields they use.

mod edited;
mod gather;
mod mailbox;
