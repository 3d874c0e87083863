//! Booting the kernel under QEMU, as one call: build, boot, stream the console, end with a verdict.
//!
//! The lab knows of the kernel only what a machine knows: a file to boot, a command line, and the
//! status with which the machine ends. They meet in five conventions, and each stands in one file here:
//!
//! | file | convention |
//! |---|---|
//! | `image` | which packages are built, and where their files lie |
//! | `line` | QEMU's words, and the kernel's own command line: options, then `--`, then the program's words |
//! | `elf` | what may be run in ring 3: one static ELF file, handed over as the initial ramdisk |
//! | `outcome` | what a machine's last status means |
//! | `count` | lines in which a program says what it counted |
//!
//! The program in ring 3 prints on the serial line, which is QEMU's standard output; the kernel prints on the
//! debug console, which is its standard error stream. So what a program prints is a program's output and
//! nothing else.
//!
//! `memory` reads sizes, `probe` finds out whether KVM runs a guest at all, and `run` starts the emulator,
//! passes its console on and ends it when its time is up. Nothing here trusts the guest: a console may print
//! anything, a machine may never end, a status may be any.

#![forbid(unsafe_code)]

pub mod count;
pub mod elf;
pub mod image;
pub mod line;
pub mod memory;
pub mod outcome;
pub mod probe;
pub mod run;

pub use memory::Memory;
pub use outcome::Outcome;
pub use run::{Console, Printed, Run, captured, run};

use serde::Serialize;
use std::path::PathBuf;

/// The accelerator that executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Accel {
    /// QEMU translates them: works everywhere
    Tcg,
    /// The host's processor does, where the host has /dev/kvm and it can be trusted
    Kvm,
}

impl Accel {
    /// QEMU's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
        }
    }
}

/// The path that the kernel's page faults take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FaultPath {
    /// Always under the space's lock
    Locked,
    /// With the mapping locked, as in Linux: a yardstick
    VmaLock,
    /// Without it, as far as that goes
    Speculative,
}

impl FaultPath {
    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            FaultPath::Locked => "locked",
            FaultPath::VmaLock => "vma-lock",
            FaultPath::Speculative => "speculative",
        }
    }
}

/// When the kernel writes the records of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// All of them, before the first frame is handed out
    Whole,
    /// What the first frames need; the rest then, by all CPUs
    Deferred,
}

impl Start {
    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Start::Whole => "whole",
            Start::Deferred => "deferred",
        }
    }
}

/// The clock of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// As on the host.
    Host,
    /// By one tick for each guest instruction: its time-stamp counter counts instructions, exactly and the
    /// same in every run.
    Instructions,
}

/// A program for ring 3 and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its file, which [`elf::check`] has found good.
    pub file: PathBuf,
    /// What it is called, and its arguments.
    pub words: Vec<String>,
}

/// A machine to boot, everything checked.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The emulator.
    pub qemu: PathBuf,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// How many CPUs.
    pub cpus: usize,
    /// How much memory.
    pub memory: Memory,
    /// The accelerator.
    pub accel: Accel,
    /// The clock.
    pub clock: Clock,
    /// A plugin for the emulator and its arguments, as QEMU has them: `FILE,KEY=VALUE`.
    pub plugin: Option<String>,
    /// The kernel's own options, in its order: `path=locked`, `selftest=storm`.
    pub options: Vec<String>,
    /// What runs in ring 3; the kernel's self-tests, if nothing does.
    pub program: Option<Program>,
    /// Seconds until the machine is ended.
    pub timeout_s: u64,
}

/// The numbers of CPUs that the kernel boots with.
pub const CPUS: std::ops::RangeInclusive<usize> = 1..=64;
