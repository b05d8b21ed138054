//! Named steps at which a test kills the process. Compiled to nothing without the feature `failpoints`.

/// A step was reached. With the feature, `TIDINGS_FAILPOINT=<step>` kills the process there by SIGKILL, and
/// `TIDINGS_FAILPOINT=<step>:<n>` the n-th time, counted from 1.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(step: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CHOSEN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let chosen = CHOSEN.get_or_init(|| {
        let text = std::env::var("TIDINGS_FAILPOINT").ok()?;
        let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), nth.parse().ok()?))
    });
    if let Some((name, nth)) = chosen
        && name == step
        && SEEN.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park(); // the signal is on its way; nothing after this step may happen
        }
    }
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn hit(_step: &str) {}
