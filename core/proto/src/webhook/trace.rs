//! W3C Trace Context: carried from the call into its webhooks.

/// The header that carries it (W3C Trace Context 3.2).
pub const TRACEPARENT_HEADER: &str = "traceparent";

/// Whether a text is a `traceparent`: version `00`, or a later one that begins in the same way, with a trace and a parent
/// that are not all zeros. Others are to be ignored, not refused (W3C Trace Context 3.2.2, 3.2.4).
pub fn is_traceparent(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |from: usize, to: usize| bytes[from..to].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let zeros = |from: usize, to: usize| bytes[from..to].iter().all(|byte| *byte == b'0');
    if bytes.len() < 55 || bytes.len() > 512 || !bytes.iter().all(u8::is_ascii_graphic) {
        return false;
    }
    let version = &bytes[..2];
    let shape = hex(0, 2) && bytes[2] == b'-' && hex(3, 35) && bytes[35] == b'-' && hex(36, 52) && bytes[52] == b'-';
    let length = if version == b"00" { bytes.len() == 55 } else { bytes.len() == 55 || bytes[55] == b'-' };
    shape && hex(53, 55) && length && version != b"ff" && !zeros(3, 35) && !zeros(36, 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_has_one_shape() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(good));
        assert!(is_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes-later"));
        for bad in [
            "",
            "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.x",
        ] {
            assert!(!is_traceparent(bad), "{bad:?}");
        }
    }
}
