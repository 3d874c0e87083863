//! `interleaf boot` against stand-ins for QEMU: shell scripts that end as a machine may. What the kernel
//! itself does is shown by `cargo xtask boots`.

use interleaf_lab::os::lacking::note as lacking;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A folder of a test's own, and an emulator that does what `script` says.
struct Bench {
    folder: PathBuf,
    script: String,
}

/// The emulator.
const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/boot/stand-in.sh");

impl Bench {
    fn new(test: &str, script: &str) -> Bench {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kernel"), "a kernel").unwrap();
        Bench { folder, script: script.to_string() }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a path of letters").to_string()
    }

    fn boot(&self, arguments: &[&str]) -> Output {
        let kernel = self.file("kernel");
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.args(["boot", "--qemu", STAND_IN, "--kernel", &kernel]).args(arguments);
        command
            .env("STAND_IN", &self.script)
            .env("STARTED", self.file("started"))
            .output()
            .expect("the command starts")
    }
}

/// What QEMU does when the guest ends in order with `code`, which goes to the debug console.
fn end_with(code: i32) -> String {
    format!("echo 'exit code {code}' >&2; exit {}", 0x10 << 1 | 1)
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_programs_bytes_are_passed_on_and_its_code_is_the_commands() {
    for code in [0, 1, 2, 42, 63, 128, 139, 255] {
        let script = format!("printf 'hello\\r\\n\\0from the guest'; {}", end_with(code));
        let output = Bench::new("code", &script).boot(&[]);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(output.stdout, b"hello\r\n\0from the guest");
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn the_kernels_lines_go_to_stderr_or_nowhere() {
    let script = format!("echo >&2 booted; echo mine; echo >&2 ended; {}", end_with(0));
    let bench = Bench::new("two", &script);
    let output = bench.boot(&[]);
    assert_eq!((output.stdout.as_slice(), stderr(&output).as_str()), (&b"mine\n"[..], "booted\nended\n"));
    let output = bench.boot(&["--quiet"]);
    assert_eq!((output.stdout.as_slice(), stderr(&output).as_str()), (&b"mine\n"[..], ""));
    // Why a boot failed is said all the same.
    let output = Bench::new("two", "echo >&2 PANIC; exit 255").boot(&["--quiet"]);
    assert!(stderr(&output).contains("the kernel panicked") && stderr(&output).lines().count() == 1);
}

#[test]
fn a_machine_without_a_verdict_is_a_failure_with_its_reason() {
    let cases = [
        ("exit 255", "the kernel panicked"),
        ("exit 35", "could not load the program"),
        ("exit 37", "lost frames"),
        ("echo exit code 3; exit 33", "status 33"),
        ("exit 0", "QEMU ended with 0 and no verdict"),
        ("echo >&2 first; echo >&2 'qemu: no such machine'; exit 1", "QEMU refused: qemu: no such machine"),
        ("exit 1", "did not say why"),
        ("exit 6", "status 6"),
        ("kill -9 $$", "signal 9"),
        ("echo >&2 'kvm.c: Assertion failed'; kill -6 $$", "signal 6: kvm.c: Assertion failed"),
    ];
    for (script, reason) in cases {
        let output = Bench::new("verdict", script).boot(&[]);
        assert_eq!(output.status.code(), Some(1), "{script}");
        let stderr = stderr(&output);
        // What QEMU itself said is passed on, before the verdict.
        let own = script.matches("echo >&2").count();
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.contains(reason) && stderr.lines().count() == 1 + own, "{script}: {stderr}");
    }
}

#[test]
fn a_machine_that_does_not_end_is_ended() {
    // Once with its console open, once with it closed.
    for script in ["echo begun; exec sleep 1000", "echo begun; exec >&- 2>&-; exec sleep 1000"] {
        let start = Instant::now();
        let output = Bench::new("endless", script).boot(&["--timeout", "1"]);
        assert_eq!(output.status.code(), Some(1), "{script}");
        assert_eq!(output.stdout, b"begun\n");
        assert!(stderr(&output).contains("no verdict after 1 s"), "{script}");
        assert!(start.elapsed() < Duration::from_secs(500), "{script}");
    }
}

#[test]
fn a_silent_machine_on_kvm_is_asked_whether_kvm_runs_anything() {
    if fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return lacking("a_silent_machine_on_kvm_is_asked_whether_kvm_runs_anything", "/dev/kvm");
    }
    let probed = |end: &str| format!("case \"$*\" in *-bios*) {end} ;; *) exec sleep 1000 ;; esac");
    let output = Bench::new("kvm", &probed("echo >&2 'kvm: broken'; exit 1")).boot(&["--accel", "kvm"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output)
            .contains("KVM does not run the machine: QEMU cannot use it: kvm: broken; --accel tcg")
    );
    // Where it does, the machine has its time.
    let output = Bench::new("kvm", &probed("exit 85")).boot(&["--accel", "kvm", "--timeout", "5"]);
    assert!(stderr(&output).contains("no verdict after 5 s"), "{output:?}");
    let talks = Bench::new("kvm", "echo begun; sleep 4; echo over; exit 255").boot(&["--accel", "kvm"]);
    assert_eq!(talks.stdout, b"begun\nover\n");
}

#[test]
fn a_guest_may_print_more_than_any_pipe_holds() {
    let script =
        format!("head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2; echo >&2; {}", end_with(0));
    let output = Bench::new("chatter", &script).boot(&[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 3_000_000));
}

#[test]
fn json_is_one_object_with_its_names_however_the_machine_ended() {
    for (end, outcome) in
        [(end_with(7), "ended"), ("exit 255".into(), "panicked"), ("exit 0".into(), "no_verdict")]
    {
        let bench = Bench::new("json", &format!("echo a; echo >&2 of the kernel; echo b; {end}"));
        let output = bench.boot(&["--json", "--cpus", "4", "--memory", "1G", "--path", "locked"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["outcome"], outcome);
        assert_eq!((report["cpus"].as_u64(), report["memory_bytes"].as_u64()), (Some(4), Some(1 << 30)));
        assert_eq!((&report["accel"], &report["command_line"]), (&"tcg".into(), &"path=locked".into()));
        assert_eq!(report["program"], serde_json::json!(["a", "b"]));
        assert_eq!(report["kernel"], serde_json::json!(["of the kernel"]));
        assert!(report["seconds"].is_number());
        assert_eq!(report.get("code").is_some(), outcome == "ended");
    }
}

#[test]
fn the_policy_of_huge_pages_is_the_kernels_option() {
    for huge in ["never", "madvise", "always"] {
        let bench = Bench::new("huge", &end_with(0));
        let output = bench.boot(&["--json", "--huge", huge, "--path", "locked", "--selftest", "huge"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["command_line"], format!("path=locked huge={huge} selftest=huge"));
    }
    for zero in ["huge", "virtual", "small", "none"] {
        let bench = Bench::new("zero", &end_with(0));
        let output = bench.boot(&["--json", "--huge", "always", "--zero-page", zero, "--selftest", "huge"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["command_line"], format!("huge=always zero_page={zero} selftest=huge"));
    }
    for wrong in [["--huge", "sometimes"], ["--zero-page", "tiny"]] {
        let wrong = Bench::new("huge", &end_with(0)).boot(&wrong);
        assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("invalid value"), "{wrong:?}");
    }
}

#[test]
fn qemu_gets_the_machine_the_kernel_and_the_program() {
    let bench = Bench::new("words", &format!("for word; do echo \"$word\"; done; {}", end_with(0)));
    let program = compiled(&bench);
    let output = bench.boot(&["--cpus", "8", "--path", "speculative", "--", &program, "-n", "two words"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let words: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect();
    let after = |switch| words.iter().position(|w| w == switch).map(|at| words[at + 1].as_str());
    assert_eq!((after("-smp"), after("-m"), after("-initrd")), (Some("8"), Some("256M"), Some(&*program)));
    assert_eq!(after("-append"), Some("path=speculative -- program -n two%20words"));
    assert!(words.contains(&"isa-debug-exit,iobase=0xf4,iosize=4".to_string()));
}

/// A static program, linked by the compiler that links Rust.
fn compiled(bench: &Bench) -> String {
    let (source, program) = (bench.file("program.c"), bench.file("program"));
    fs::write(&source, "void _start(void) { for (;;) ; }\n").unwrap();
    let words = ["-static", "-no-pie", "-nostdlib", "-o", &program, &source];
    assert!(Command::new("cc").args(words).status().expect("cc, which links Rust, compiles C").success());
    program
}

#[test]
fn what_cannot_be_booted_is_said_in_one_line_and_nothing_is_started() {
    let bench = Bench::new("refused", "touch $STARTED; exit 0");
    fs::write(bench.file("text"), "#!/bin/sh\n").unwrap();
    let (text, shared) = (bench.file("text"), std::env::current_exe().unwrap());
    let cases: [(&[&str], &str); 13] = [
        (&["--cpus", "0"], "1 to 64"),
        (&["--cpus", "65"], "1 to 64"),
        (&["--memory", "63M"], "64M to 64G"),
        (&["--memory", "65G"], "64M to 64G"),
        (&["--memory", "lots"], "64M to 64G"),
        (&["--timeout", "0"], "seconds"),
        (&["--selftest", "two words"], "without spaces"),
        (&["--", "/no/such/program"], "no such file"),
        (&["--", "/proc"], "no such file"),
        (&["--", &text], "not an ELF file"),
        (&["--", shared.to_str().unwrap()], "not a static program"),
        (&["--qemu", "/no/such/qemu"], "the argument '--qemu"),
        (&["--accel", "hvf"], "invalid value"),
    ];
    for (arguments, reason) in cases {
        let output = bench.boot(arguments);
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(reason) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
        let ours = stderr.starts_with("interleaf: ");
        assert!(!ours || stderr.lines().count() == 1, "{arguments:?}: {stderr}");
    }
    assert!(!PathBuf::from(bench.file("started")).exists());
}

#[test]
fn without_an_emulator_the_package_is_named() {
    let bench = Bench::new("nothing", "exit 0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.args(["boot", "--kernel", &bench.file("kernel")]).env("PATH", "/no/such/folder");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = stderr(&output);
    assert!(stderr.contains("apt-get install qemu-system-x86") && stderr.lines().count() == 1, "{stderr}");
}

/// What a kernel prints that counts; the words of its command line decide on the path.
const COUNTING: &str = r#"
for word; do last=$word; done
case "$last" in
    "path=locked count -- cost") extra=100 ;;
    "path=speculative count -- cost") extra=0 ;;
    "path=locked huge=always count -- cost huge"|"path=speculative huge=always count -- cost huge")
        echo "count zeroing_huge 262144.00"
        echo "count huge_read_fault 449.00"
        echo "count huge_write_fault 263144.00"
        echo "count huge_unmap 1500.00"
        echo >&2 "exit code 0"
        exit 33 ;;
    *) exit 255 ;;
esac
echo "count zeroing 512.00"
echo "count write_fault $((900 + 3 * extra)).50"
echo "count copying_bytes 4097.00"
echo "count copy_on_write 4187.00"
echo "count zone_fault 950.00"
for name in read_fault unmap_page unmap_zero_page zone_unmap_page reuse null_call; do
    echo "count $name 90.00"
done
echo "count map_unmap_mib 3000.00"
echo >&2 "exit code 0"
exit 33
"#;

#[test]
fn counts_are_figures_with_their_bars_on_both_paths() {
    let bench = Bench::new("count", COUNTING);
    let output = bench.boot(&["--count", "--json", "--check"]);
    assert_eq!(output.status.code(), Some(1), "the locked path misses a bar: {output:?}");
    let counts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = counts["figures"].as_array().unwrap();
    let value = |name: &str| {
        figures.iter().find(|f| f["name"] == name).map(|f| (f["value"].clone(), f["verdict"].clone()))
    };
    assert_eq!(value("kernel.write_fault"), Some((388.5.into(), "yes".into())));
    assert_eq!(value("kernel.write_fault_locked"), Some((688.5.into(), "no".into())));
    assert_eq!(value("kernel.huge_read_fault"), Some((449.0.into(), "yes".into())));
    assert_eq!(value("kernel.huge_write_fault").map(|(value, _)| value), Some(1000.0.into()));
    assert_eq!(figures.len(), 26);
}

#[test]
fn a_machine_that_does_not_count_is_a_failure() {
    let silent = Bench::new("silent", &format!("echo hello; {}", end_with(0))).boot(&["--count"]);
    assert_eq!(silent.status.code(), Some(1));
    assert!(stderr(&silent).contains("did not count"), "{silent:?}");
    let broken = Bench::new("broken", &format!("echo out of memory; {}", end_with(1))).boot(&["--count"]);
    assert!(stderr(&broken).contains("cost ended with 1: out of memory"), "{broken:?}");
}
