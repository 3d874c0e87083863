use super::*;
use crate::trace::event::{Fault, ProcessExit};

fn at(kind: Kind) -> Event {
    Event { time_ns: 1_234_567, pid: 10, tid: 11, kind }
}

#[test]
fn a_line_says_when_who_and_what() {
    let fault =
        Fault { address: 0x1000, access: Access::Write, mode: Mode::Kernel, cause: Cause::Protection };
    let text = line(&at(Kind::Fault(fault)));
    assert_eq!(text, "      1234.567      10      11  fault      0x000000001000 write kernel protection");
}

#[test]
fn a_call_is_said_with_arguments_result_duration_and_file() {
    let args = [0, 4096, 1, 2, u64::MAX, 0];
    let file = Some("/lib/z".into());
    let call = Call {
        sys: Sys::Mmap,
        args,
        result: Some(-12),
        start_ns: 1_000_000,
        end_ns: 1_001_500,
        file,
        inode: None,
    };
    let text = line(&at(Kind::Call(call)));
    assert!(text.ends_with("mmap(0, 0x1000, 1, 2, -1, 0) = -12 <1.500 us> /lib/z"), "{text}");
}

#[test]
fn an_end_is_said_by_status_or_signal() {
    assert!(
        line(&at(Kind::Exit(ProcessExit { status: 3 << 8, image: None }))).ends_with("exit       status 3")
    );
    assert!(line(&at(Kind::Exit(ProcessExit { status: 9, image: None }))).ends_with("exit       signal 9"));
}
