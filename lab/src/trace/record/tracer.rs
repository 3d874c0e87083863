//! Following the program by its stops: what begins, what is loaded, what ends, and the map at each.
//!
//! A task stops only where it makes a task, has loaded a program, receives a signal or ends; not at its
//! calls, except in a recording without privilege, which has no other way to see them. A stop's time is read
//! while the task is stopped (see [`merge`](super::merge)).
//!
//! The final map of a process is read at the last of its threads' exit stops: there every thread has stopped
//! running the program for good, and the memory is still whole.

use super::ending::Ending;
use super::page_cache::PageCache;
use super::procfs;
use super::raw::{Raw, What};
use crate::os::process::monotonic_ns;
use crate::os::ptrace::{self, CallStop, Calls, Change, Making, PtraceStop};
use crate::trace::calls::{Sys, is_kept};
use crate::trace::event::{Inode, NewTask, ProcessExit, Signal, Started};
use crate::trace::header::ProcessCount;
use crate::trace::image::Image;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Follows one command and everything it starts.
#[derive(Debug)]
pub struct Tracer<'a> {
    calls: Calls,
    out: Sender<Raw>,
    ending: &'a Ending,
    cache: &'a PageCache,
    tasks: HashMap<u32, Task>,
    /// Every process, in order of its beginning.
    processes: Vec<Process>,
    /// Of those that are not over, the index by number.
    alive: HashMap<u32, usize>,
}

#[derive(Debug)]
struct Task {
    pid: u32,
    ends: bool,
    inside: Option<Sys>,
}

#[derive(Debug)]
struct Process {
    count: ProcessCount,
    base: u64,
    /// Its threads that have not come to their end.
    running: usize,
}

impl<'a> Tracer<'a> {
    /// Takes over the command `pid`, stopped at its first exec with `base` faults counted.
    pub fn new(
        pid: u32,
        base: u64,
        calls: Calls,
        out: Sender<Raw>,
        ending: &'a Ending,
        cache: &'a PageCache,
    ) -> Tracer<'a> {
        let (tasks, alive, processes) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut tracer = Tracer { calls, out, ending, cache, tasks, processes, alive };
        tracer.add(pid, pid, 0);
        tracer.processes[0].base = base;
        tracer
    }

    /// Lets the command go, whose first image this is, and follows until everything it started is over.
    pub fn run(mut self, pid: u32, first: &Image) -> io::Result<Vec<ProcessCount>> {
        self.say_cached(pid, first);
        ptrace::resume(pid, self.calls, 0)?;
        while let Some((tid, change)) = ptrace::wait()? {
            match change {
                Change::Stopped(stop) => self.stopped(tid, stop)?,
                Change::Over => {
                    let counted = procfs::counted_faults(tid).ok();
                    self.ending.ends(tid);
                    let status = ptrace::reap(tid)?;
                    self.over(tid, status, counted);
                }
                Change::Gone(status) => self.over(tid, status, None),
            }
        }
        Ok(self.processes.into_iter().map(|p| p.count).collect())
    }

    fn stopped(&mut self, tid: u32, stop: PtraceStop) -> io::Result<()> {
        let mut deliver = 0;
        match stop {
            PtraceStop::NewTask(new, making) => self.new_task(tid, new, making),
            PtraceStop::Begin => self.begin(tid),
            PtraceStop::Exec(former) => self.exec(tid, former)?,
            PtraceStop::Exit(status) => self.exit(tid, status),
            PtraceStop::Call => self.call(tid)?,
            PtraceStop::Signal(signal) => deliver = self.signal(tid, signal),
            PtraceStop::Group => return gone_is_fine(ptrace::listen(tid)),
        }
        gone_is_fine(ptrace::resume(tid, self.calls, deliver))
    }

    fn say(&self, tid: u32, what: What) {
        let pid = self.tasks.get(&tid).map_or(tid, |t| t.pid);
        // Fails only when the receiving side has stopped with an error of its own, which is the one reported.
        let _ = self.out.send(Raw { time_ns: monotonic_ns(), pid, tid, what });
    }

    /// Says what the page cache has of the files of an image, those that were not mapped before.
    fn say_cached(&self, tid: u32, image: &Image) {
        for mapping in &image.mappings {
            let inode = Inode::of_map(&mapping.device, mapping.inode);
            let said = inode.map(|inode| self.cache.look(&mapping.name, inode));
            said.into_iter().flatten().for_each(|what| self.say(tid, what));
        }
    }

    fn add(&mut self, tid: u32, pid: u32, parent: u32) {
        if self.tasks.insert(tid, Task { pid, ends: false, inside: None }).is_some() {
            return;
        }
        match self.process(pid) {
            Some(process) => {
                process.count.threads += 1;
                process.running += 1;
            }
            None => {
                let count = ProcessCount { pid, parent, threads: 1, ..ProcessCount::default() };
                self.alive.insert(pid, self.processes.len());
                self.processes.push(Process { count, base: 0, running: 1 });
                self.ending.began(pid);
            }
        }
    }

    /// The process of that number which is not over.
    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        let &at = self.alive.get(&pid)?;
        self.processes.get_mut(at)
    }

    fn begin(&mut self, tid: u32) {
        if !self.tasks.contains_key(&tid) {
            // A task that is killed as it begins may have no `/proc` entry to read; its end says nothing
            // either.
            if let Ok((pid, parent)) = procfs::family(tid) {
                self.add(tid, pid, parent);
            }
        }
    }

    fn new_task(&mut self, tid: u32, new: u32, making: Making) {
        self.begin(new);
        if self.calls == Calls::Run {
            return;
        }
        let thread = self.tasks.get(&new).is_some_and(|t| t.pid != new);
        let flags = match making {
            _ if thread => NewTask::VM | NewTask::THREAD,
            Making::Vfork => NewTask::VM | NewTask::VFORK,
            Making::Fork => 0,
        };
        self.say(tid, What::Task(NewTask { tid: new, flags }));
    }

    /// A program is loaded. All other threads of the process are gone, and if another thread than the first
    /// asked for it, it now has the first one's number.
    fn exec(&mut self, tid: u32, former: u32) -> io::Result<()> {
        let inside = self.tasks.get(&former).and_then(|t| t.inside);
        self.tasks.retain(|&other, task| task.pid != tid || other == tid);
        self.tasks.insert(tid, Task { pid: tid, ends: false, inside });
        if let Some(process) = self.process(tid) {
            process.running = 1;
        }
        let image = Arc::new(procfs::image(tid)?);
        self.say(tid, What::Exec(Started { image: image.clone() }, former));
        self.say_cached(tid, &image);
        Ok(())
    }

    fn exit(&mut self, tid: u32, status: i32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let (pid, ended_before) = (task.pid, std::mem::replace(&mut task.ends, true));
        if !ended_before {
            self.one_less(pid);
        }
        let last = self.process(pid).is_none_or(|process| process.running == 0);
        let image = if last { procfs::image(tid).ok().map(Arc::new) } else { None };
        if let Some(process) = self.process(pid) {
            process.count.final_map |= image.is_some();
        }
        self.say(tid, What::Exit(ProcessExit { status, image }));
    }

    fn over(&mut self, tid: u32, status: i32, counted: Option<u64>) {
        self.ending.ends(tid);
        if let Some(task) = self.tasks.remove(&tid).filter(|task| !task.ends) {
            self.one_less(task.pid);
        }
        if let Some(process) = self.process(tid) {
            process.count.status = status;
            process.count.counted = counted.map_or(0, |c| c.saturating_sub(process.base));
        }
        self.alive.remove(&tid);
    }

    /// A thread of the process has come to its end.
    fn one_less(&mut self, pid: u32) {
        if let Some(process) = self.process(pid) {
            process.running = process.running.saturating_sub(1);
        }
    }

    /// A signal about memory is recorded; every signal is delivered.
    fn signal(&mut self, tid: u32, signal: i32) -> i32 {
        if matches!(signal, libc::SIGSEGV | libc::SIGBUS)
            && let Ok(facts) = ptrace::signal_facts(tid)
            && facts.code > 0
        {
            self.say(tid, What::Signal(Signal { number: signal, code: facts.code, address: facts.address }));
        }
        signal
    }

    fn call(&mut self, tid: u32) -> io::Result<()> {
        let what = match ptrace::call_stop(tid) {
            Ok(CallStop::Entry(number, args)) => {
                let sys = Sys::from_number(number).filter(|&sys| is_kept(sys, &args));
                self.tasks.entry(tid).and_modify(|t| t.inside = sys);
                sys.map(|sys| What::Enter(sys, args))
            }
            Ok(CallStop::Exit(result)) => {
                let sys = self.tasks.get_mut(&tid).and_then(|t| t.inside.take());
                sys.map(|sys| What::Leave(sys, result))
            }
            Ok(CallStop::None) => None,
            Err(error) => return gone_is_fine(Err(error)),
        };
        what.into_iter().for_each(|what| self.say(tid, what));
        Ok(())
    }
}

/// A task that was killed while it was stopped answers ESRCH; its end will be seen.
fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if e.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(e) })
}
