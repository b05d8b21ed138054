//! What the crowd and its test agree on.

/// The scope of every stream.
pub(crate) const SCOPE: &str = "crowd";
/// The stream to which all writers append.
pub(crate) const SHARED: &str = "shared";
/// A writer waits for its commit after so many events.
pub(crate) const STEP: u64 = 500;

/// A sum over events that depends on their order: FNV-1a.
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { count: 0, sum: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Sum {
    pub(crate) fn add(&mut self, seq: u64, payload: &[u8]) {
        self.count += 1;
        for byte in seq.to_le_bytes().iter().chain(payload) {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
