use super::*;
use crate::measure::Options;

#[test]
fn a_claim_follows_the_worst_verdict() {
    use crate::measure::bench::Verdict;
    let section = Section { title: "t", claim: "c", run: |_| Ok(()), command: "interleaf list" };
    let shown = |verdicts: &[(&str, Verdict)]| {
        let mut out = Out::new(&Options::small());
        verdicts.iter().for_each(|&(what, verdict)| out.judge(what, Some(verdict)));
        out.shown(&section)
    };
    assert_eq!(shown(&[]).verdict, None);
    let yes = shown(&[("a", Verdict::Yes)]);
    assert!(yes.because.is_empty() && yes.text(1, 1).contains("here: so it is"));
    let open = shown(&[("a", Verdict::Yes), ("b", Verdict::CannotTell)]);
    assert!(open.text(1, 1).contains("here: this run cannot tell: b"));
    let no = shown(&[("a", Verdict::No), ("b", Verdict::CannotTell)]);
    assert_eq!((no.verdict, no.because.len()), (Some(Verdict::No), 1));
    assert!(no.text(1, 1).contains("here: NOT so: a"));
}

#[test]
fn garbage_fails_the_claim_beyond_its_limit() {
    use crate::measure::bench::Verdict;
    use crate::measure::garbage::PeakGarbage;
    let section = Section { title: "t", claim: "c", run: |_| Ok(()), command: "interleaf list" };
    let with = |peak_bytes| {
        let mut out = Out::new(&Options::small());
        out.garbage(&PeakGarbage { peak_objects: 3, peak_bytes, limit_bytes: 100, longest_grace_ns: 1 });
        out.shown(&section)
    };
    assert_eq!(with(100).verdict, None, "what may wait says nothing about the claim");
    let beyond = with(101);
    assert_eq!(beyond.verdict, Some(Verdict::No));
    assert_eq!(beyond.because, ["garbage that waited for readers"]);
}
