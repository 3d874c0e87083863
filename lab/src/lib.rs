//! The lab: records, replays, simulates and measures.

pub mod baton;
pub mod bench;
pub mod boot;
pub mod check;
pub mod command;
pub mod doctor;
pub mod fault;
pub mod host;
pub mod init;
pub mod lacking;
pub mod model;
pub mod os;
pub mod replay;
pub mod show;
pub mod soft;
pub mod tour;
pub mod trace;
pub mod watch;
