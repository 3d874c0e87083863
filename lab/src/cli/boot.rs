//! `interleaf boot [-- PROGRAM ARGS]`: boots the kernel under QEMU and ends as the program does.

use super::huge::Huge;
use crate::boot::{
    self, Accel, Boot, CPUS, Clock, Console, FaultPath, Memory, Outcome, Printed, Program, Start, count, elf,
    image, line,
};
use crate::error::Failure;
use crate::measure::bench::report::figures_table;
use crate::measure::bench::{Figure, Verdict};
use crate::measure::zero::ZeroPage;
use crate::show::{Output, Progress};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `interleaf boot`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How many CPUs the machine has, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 2)]
    cpus: usize,
    /// How much memory it has, 64M to 64G
    #[arg(long, value_name = "M", default_value = "256M")]
    memory: String,
    /// What executes its instructions
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    accel: Accel,
    /// Seconds until it is ended without a verdict
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout: u64,
    /// Which way page faults go; as the kernel likes, if nothing is said
    #[arg(long, value_enum)]
    path: Option<FaultPath>,
    /// When private memory gets huge pages; never, if nothing is said
    #[arg(long, value_enum)]
    huge: Option<Huge>,
    /// What a load of untouched memory finds where that may have huge pages; the huge zero page, if nothing
    /// is said
    #[arg(long, value_enum)]
    zero_page: Option<ZeroPage>,
    /// How many huge pages of 2 MiB it sets aside for MAP_HUGETLB
    #[arg(long, value_name = "N")]
    huge_pool: Option<u64>,
    /// How many pages khugepaged looks at in a pass; as Linux, if nothing is said
    #[arg(long, value_name = "N")]
    pages_to_scan: Option<u32>,
    /// Milliseconds from one pass of khugepaged to the next; as Linux, if nothing is said
    #[arg(long, value_name = "MS")]
    scan_sleep_millisecs: Option<u32>,
    /// When the records of its frames are written: before the first is handed out, or then, by all CPUs
    #[arg(long, value_enum)]
    start: Option<Start>,
    /// One of the kernel's self-tests; all of them, if nothing is said
    #[arg(long, value_name = "NAME", conflicts_with = "program")]
    selftest: Option<String>,
    /// Count guest instructions of faults, unmapping and calls on one CPU, on both paths or the one of --path
    #[arg(
        long,
        conflicts_with_all = ["program", "selftest", "cpus", "accel", "huge", "zero_page", "huge_pool"]
    )]
    count: bool,
    /// With --count, fail if a bar is missed
    #[arg(long, requires = "count")]
    check: bool,
    /// Build the kernel with the library's debug assertions: slower, and watches its locks
    #[arg(long, conflicts_with_all = ["kernel", "count"])]
    checked: bool,
    /// Boot this kernel instead of building the one of the checkout
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Have the kernel use no timer: nothing interrupts the program but what it asks for
    #[arg(long)]
    no_timer: bool,
    /// Load this plugin into the emulator, with its arguments
    #[arg(long, value_name = "FILE,KEY=VALUE")]
    plugin: Option<String>,
    /// Print nothing of the kernel's, which goes to stderr: the program's output alone, and why a boot failed
    #[arg(long, short)]
    quiet: bool,
    /// The emulator, instead of the one in PATH
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
    /// A program for ring 3 and its arguments: the name of one of ours, or a static ELF file
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    program: Vec<String>,
}

/// What is said of a boot. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
struct Report {
    cpus: usize,
    memory_bytes: u64,
    accel: Accel,
    /// What the kernel was told.
    command_line: String,
    #[serde(flatten)]
    outcome: Outcome,
    seconds: f64,
    /// What the program printed, line by line.
    program: Vec<String>,
    /// What the kernel printed, line by line.
    kernel: Vec<String>,
}

/// Most seconds: a day.
const MOST_SECONDS: u64 = 86_400;

/// Boots, and returns the program's exit code; a machine without a verdict is a failure.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.count {
        return counted(&args).map(|()| ExitCode::SUCCESS);
    }
    let boot = args.boot()?;
    let outcome = if args.output.json { reported(&boot, args.output)? } else { streamed(&boot, args.quiet)? };
    outcome.code(boot.timeout_s).map(ExitCode::from).map_err(Failure::check)
}

impl Args {
    /// The machine that is asked for. What can be refused without building is refused first.
    fn boot(&self) -> Result<Boot, Failure> {
        let refuse = |line: String| Failure::usage(line);
        if !CPUS.contains(&self.cpus) {
            return Err(refuse(format!(
                "--cpus {}: the kernel boots with {} to {}",
                self.cpus,
                CPUS.start(),
                CPUS.end()
            )));
        }
        let memory: Memory =
            self.memory.parse().map_err(|e| refuse(format!("--memory {}: {e}", self.memory)))?;
        if !(1..=MOST_SECONDS).contains(&self.timeout) {
            return Err(refuse(format!("--timeout {}: 1 to {MOST_SECONDS} seconds", self.timeout)));
        }
        line::check_words(&self.program).map_err(refuse)?;
        let options = self.options()?;
        let qemu = self.emulator()?;
        let program = self.program(memory)?;
        let kernel = match &self.kernel {
            Some(file) if file.is_file() => file.clone(),
            Some(file) => return Err(refuse(format!("{}: no such file", file.display()))),
            None => image::kernel(self.checked).map_err(refuse)?,
        };
        let (cpus, accel, clock) = (self.cpus, self.accel, Clock::Host);
        let (plugin, timeout_s) = (self.plugin.clone(), self.timeout);
        Ok(Boot { qemu, kernel, cpus, memory, accel, clock, plugin, options, program, timeout_s })
    }

    fn options(&self) -> Result<Vec<String>, Failure> {
        let path = self.path.map(|path| format!("path={}", path.name()));
        let selftest = self.selftest.iter().map(|name| format!("selftest={name}"));
        let start = self.start.map(|start| format!("start={}", start.name()));
        let huge = self.huge.map(|huge| format!("huge={}", huge.name()));
        let zero_page = self.zero_page.map(|kind| format!("zero_page={}", kind.name()));
        let huge_pool = self.huge_pool.map(|pages| format!("hugepages={pages}"));
        let pages_to_scan = self.pages_to_scan.map(|pages| format!("pages_to_scan={pages}"));
        let scan_sleep = self.scan_sleep_millisecs.map(|ms| format!("scan_sleep_millisecs={ms}"));
        let no_timer = self.no_timer.then(|| "count".to_string());
        let options: Vec<String> =
            [path, huge, zero_page, huge_pool, pages_to_scan, scan_sleep, start, no_timer]
                .into_iter()
                .flatten()
                .chain(selftest)
                .collect();
        line::check_options(&options).map_err(Failure::usage)?;
        Ok(options)
    }

    fn emulator(&self) -> Result<PathBuf, Failure> {
        if self.accel == Accel::Kvm {
            let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm");
            kvm.map_err(|e| Failure::usage(format!("--accel kvm: /dev/kvm: {e}")))?;
        }
        match &self.qemu {
            Some(file) if file.is_file() => Ok(file.clone()),
            Some(file) => Err(Failure::usage(format!("{}: no such file", file.display()))),
            None => image::qemu().ok_or_else(|| Failure::usage(image::no_qemu())),
        }
    }

    fn program(&self, memory: Memory) -> Result<Option<Program>, Failure> {
        let Some(word) = self.program.first() else { return Ok(None) };
        let file = image::program(word).map_err(Failure::usage)?;
        elf::check(&file, memory).map_err(|unfit| Failure::usage(format!("{}: {unfit}", file.display())))?;
        let mut words = self.program.clone();
        if let Some(name) = Path::new(word).file_name().and_then(|name| name.to_str()) {
            words[0] = name.to_string();
        }
        Ok(Some(Program { file, words }))
    }
}

/// What the program prints goes to stdout as it comes, and the kernel's lines go to stderr.
fn streamed(boot: &Boot, is_quiet: bool) -> Result<Outcome, Failure> {
    let mut gone = false;
    let run = boot::run(boot, |console, piece| {
        if console == Console::Kernel {
            // A reader of the kernel's lines that has gone away misses them, and nothing else.
            let _ = if is_quiet { Ok(()) } else { io::stderr().write_all(piece) };
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(piece).and_then(|()| stdout.flush());
        gone = matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe);
        written
    });
    if gone {
        // A reader that has gone away is no failure; the machine was ended.
        std::process::exit(0);
    }
    Ok(run.map_err(|e| started(boot, &e))?.outcome)
}

/// The consoles become parts of the report.
fn reported(boot: &Boot, output: Output) -> Result<Outcome, Failure> {
    let (run, Printed { program, kernel }) = boot::captured(boot).map_err(|e| started(boot, &e))?;
    let lines = |text: String| text.lines().map(str::to_string).collect();
    let report = Report {
        cpus: boot.cpus,
        memory_bytes: boot.memory.bytes(),
        accel: boot.accel,
        command_line: line::kernel_line(boot),
        outcome: run.outcome.clone(),
        seconds: run.took.as_secs_f64(),
        program: lines(program),
        kernel: lines(kernel),
    };
    output.emit(&report, |_| String::new())?;
    Ok(run.outcome)
}

/// What was counted. The field name is the JSON's and stays.
#[derive(Clone, Debug, Serialize)]
struct Counts {
    figures: Vec<Figure>,
}

/// Boots once for each path with a clock that counts instructions, and shows what they came to.
fn counted(args: &Args) -> Result<(), Failure> {
    let paths = match args.path {
        Some(path) => vec![path],
        None => vec![FaultPath::Locked, FaultPath::Speculative],
    };
    let program = vec![count::PROGRAM.to_string()];
    let one = Args { cpus: 1, accel: Accel::Tcg, program, path: None, ..args.clone() };
    let boot = Boot { clock: Clock::Instructions, ..one.boot()? };
    let progress = Progress::new(args.output, 2 * paths.len());
    let mut counts = Counts { figures: Vec::new() };
    for path in paths {
        progress.step(path.name());
        let console = console_of_count(&boot, path, Huge::Never)?;
        counts.figures.extend(count::figures(path, &console).map_err(Failure::check)?);
        progress.step(&format!("{}, huge pages", path.name()));
        let console = console_of_count(&boot, path, Huge::Always)?;
        counts.figures.extend(count::huge_figures(path, &console).map_err(Failure::check)?);
    }
    progress.done();
    args.output.emit(&counts, |counts| figures_table(&counts.figures))?;
    let missed: Vec<_> =
        counts.figures.iter().filter(|f| f.verdict == Some(Verdict::No)).map(|f| f.name).collect();
    match args.check && !missed.is_empty() {
        true => Err(Failure::check(format!("{} of the bars missed: {}", missed.len(), missed.join(", ")))),
        false => Ok(()),
    }
}

/// Boots the program that counts, of base pages where there are no huge ones, else of huge ones; what it
/// printed.
fn console_of_count(boot: &Boot, path: FaultPath, huge: Huge) -> Result<String, Failure> {
    let path = format!("path={}", path.name());
    let (mut options, mut boot) = (vec![path], boot.clone());
    if huge != Huge::Never {
        options.push(format!("huge={}", huge.name()));
        boot.program.iter_mut().for_each(|program| program.words.push(count::HUGE_WORD.to_string()));
    }
    options.push("count".to_string());
    boot.options = options;
    let (run, printed) = boot::captured(&boot).map_err(|e| started(&boot, &e))?;
    let last = printed.program.lines().last().unwrap_or_default().trim();
    match run.outcome.code(boot.timeout_s).map_err(Failure::check)? {
        0 => Ok(printed.program),
        code => Err(Failure::check(format!("{} ended with {code}: {last}", count::PROGRAM))),
    }
}

fn started(boot: &Boot, error: &io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", boot.qemu.display()))
}
