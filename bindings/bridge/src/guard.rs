//! No panic crosses into a host.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, set_hook};
use std::path::Path;
use std::sync::Once;

use crate::error::{Error, ErrorCode};

thread_local! {
    /// Where the last panic of this thread was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs an entry point called `entry`; a panic inside becomes an error of code `internal`.
///
/// The panic's own text is neither told nor logged: it may quote a payload. Its place in the source is.
///
/// # Errors
/// Those of `body`, and `internal`.
pub fn guard<T>(entry: &'static str, body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // Unwind safety: what a panic may leave half done is behind locks whose users take it as they find it.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => {
            // Dropping the payload may run code that panics again.
            std::mem::forget(payload);
            let place = PLACE.take().map_or_else(String::new, |place| format!(" at {place}"));
            Err(Error::new(ErrorCode::Internal, format!("{entry}: a defect of tidings, please report it{place}")))
        }
    }
}

/// Makes panics of this library be logged by their place and without their text, instead of being printed. Only for a
/// library that carries its own copy of the Rust runtime, as a Python or Node extension does: the hook is global to it.
pub fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_hook(Box::new(|info| {
            let place = info.location().map_or_else(|| "an unknown place".to_owned(), place);
            tracing::error!(place, "a defect of tidings (panic)");
            PLACE.set(Some(place));
        }));
    });
}

/// Names a place in our sources by its path in the repository, one in a dependency by its file only.
fn place(location: &Location<'_>) -> String {
    let path = Path::new(location.file());
    let shown = if path.is_absolute() { path.file_name().map_or(path, Path::new) } else { path };
    format!("{}:{}", shown.display(), location.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_without_its_text() {
        let error = guard("append", || -> Result<(), Error> { panic!("the payload says: secret") }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Internal);
        assert!(error.to_string().starts_with("append: a defect of tidings"), "{error}");
        assert!(!error.to_string().contains("secret"));
    }

    #[test]
    fn results_pass() {
        assert_eq!(guard("x", || Ok(7)).unwrap(), 7);
        let refused = guard("x", || -> Result<(), Error> { Err(Error::new(ErrorCode::Closed, "no")) });
        assert_eq!(refused.unwrap_err().code(), ErrorCode::Closed);
    }

    #[test]
    fn a_payload_that_panics_when_dropped() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(guard("x", || -> Result<(), Error> { std::panic::panic_any(Bomb) }).is_err());
    }
}
