use super::*;

#[test]
fn every_width_zeroes_all_bytes_and_no_others() {
    for width in Width::on_this_host() {
        for (start, end) in [(0, 1024), (1, 1023), (63, 129), (5, 6), (64, 64)] {
            let mut bytes = vec![0xA5u8; 1024];
            zero(&mut bytes[start..end], width);
            let zeroes = bytes.iter().enumerate().all(|(at, &b)| (b == 0) == (start..end).contains(&at));
            assert!(zeroes, "{width:?} {start}..{end}");
        }
    }
}
