//! `tidings._native`: the Python extension module of Tidings.
//!
//! Private: people import `tidings`, whose modules are written in Python. Its stub is `python/tidings/_native.pyi`.

use pyo3::prelude::*;

/// What `import tidings._native` runs.
///
/// # Errors
///
/// When Python refuses a name, which is to say when it is out of memory.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
