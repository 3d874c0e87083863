use super::*;

fn field(offset: usize, size: usize) -> Field {
    Field { offset, size }
}

fn points() -> Samples {
    Samples::Tracepoints(Box::new(Points {
        user: (7, field(8, 8), field(24, 8)),
        kernel: (8, field(8, 8), field(24, 8)),
        enter: (9, field(8, 8), field(16, 48)),
        leave: (10, field(8, 8), field(16, 8)),
        task: (11, field(8, 4), field(32, 8)),
        cache: Some([(12, Cached::Added), (13, Cached::Removed)].map(|(id, cached)| CachePoint {
            id,
            cached,
            device: field(32, 4),
            inode: field(16, 8),
            first: field(24, 8),
            order: field(36, 1),
        })),
    }))
}

fn record(kind: u32, words: &[u64]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0, 0, 0, 0]);
    words.iter().for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
    bytes
}

fn point(id: u64, words: &[u64]) -> Vec<u8> {
    let mut bytes = record(kernel::PERF_RECORD_SAMPLE, &[5 | 6 << 32, 1000]);
    bytes.extend_from_slice(&(8 + 8 * words.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&id.to_le_bytes());
    words.iter().for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
    bytes
}

fn what(record: &[u8]) -> What {
    match decode(&points(), record) {
        Ok(Said::Raw(raw)) => {
            assert_eq!((raw.pid, raw.tid, raw.time_ns), (5, 6, 1000));
            raw.what
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fault_is_read_with_what_its_error_code_says() {
    let fault = |access, mode, cause| What::Fault(Fault { address: 0x1234, access, mode, cause });
    assert_eq!(what(&point(7, &[0x1234, 0, 0b110])), fault(Access::Write, Mode::User, Cause::Absent));
    assert_eq!(what(&point(7, &[0x1234, 0, 0b10101])), fault(Access::Execute, Mode::User, Cause::Protection));
    assert_eq!(what(&point(8, &[0x1234, 0, 0])), fault(Access::Read, Mode::Kernel, Cause::Absent));
}

#[test]
fn calls_and_tasks_are_read() {
    assert_eq!(what(&point(9, &[11, 1, 2, 3, 4, 5, 6])), What::Enter(Sys::Munmap, [1, 2, 3, 4, 5, 6]));
    assert_eq!(what(&point(10, &[11, u64::MAX])), What::Leave(Sys::Munmap, -1));
    assert_eq!(what(&point(11, &[77, 0, 0, 0x100])), What::Task(NewTask { tid: 77, flags: 0x100 }));
}

#[test]
fn pages_that_come_and_leave_are_read() {
    let device = 254 << 20 | 3;
    let change = |cached| {
        let inode = Inode { device: device as u32, number: 77 };
        What::Cache(CacheChange { inode, first: 40, pages: 8, cached })
    };
    let order = 3u64 << 32;
    assert_eq!(what(&point(12, &[0, 77, 40, device | order])), change(Cached::Added));
    assert_eq!(what(&point(13, &[0, 77, 40, device | order])), change(Cached::Removed));
}

#[test]
fn calls_that_no_trace_keeps_say_nothing() {
    assert_eq!(decode(&points(), &point(9, &[0; 7])), Ok(Said::Nothing));
    assert_eq!(decode(&points(), &point(9, &[157, 15, 0, 0, 0, 0, 0])), Ok(Said::Nothing), "PR_SET_NAME");
}

#[test]
fn losses_are_counted_in_each_of_their_forms() {
    assert_eq!(decode(&points(), &record(kernel::PERF_RECORD_LOST, &[1, 9])), Ok(Said::Lost(9)));
    assert_eq!(decode(&points(), &record(kernel::PERF_RECORD_LOST_SAMPLES, &[4])), Ok(Said::Lost(4)));
    assert_eq!(decode(&points(), &record(kernel::PERF_RECORD_THROTTLE, &[0; 3])), Ok(Said::Lost(1)));
}

#[test]
fn a_record_cut_anywhere_is_an_error_and_no_panic() {
    for whole in [point(7, &[1, 2, 3]), point(9, &[11, 1, 2, 3, 4, 5, 6]), point(11, &[7, 0, 0, 1])] {
        (0..whole.len()).for_each(|len| assert!(decode(&points(), &whole[..len]).is_err()));
    }
}
