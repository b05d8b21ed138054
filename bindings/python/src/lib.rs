//! `tidings._native`: the Python extension module of Tidings.
//!
//! Private: people import `tidings`, whose modules are written in Python. Its stub is `python/tidings/_native.pyi`.
//!
//! Every entry runs inside the bridge's panic guard. What may block runs without the GIL. Classes refer to no Python
//! object but immutable text and bytes, so that they are in no reference cycle. No thread of ours calls Python.

mod call;
mod convert;
mod event;
mod fanout;
mod hub;
mod outlet;
mod port;
mod stream;
mod webhook;

use pyo3::prelude::*;
use tidings_bridge as bridge;

/// What `import tidings._native` runs. Starts no thread and opens nothing.
///
/// # Errors
///
/// When Python refuses a name, which is to say when it is out of memory.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    bridge::install_panic_hook();
    bridge::install_log();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<call::Call>()?;
    module.add_class::<call::Ended>()?;
    module.add_class::<event::Event>()?;
    module.add_class::<event::Gap>()?;
    module.add_class::<event::Page>()?;
    module.add_class::<fanout::Fanout>()?;
    module.add_class::<fanout::Outbox>()?;
    module.add_class::<fanout::Profile>()?;
    module.add_class::<fanout::Progress>()?;
    module.add_class::<hub::Delivery>()?;
    module.add_class::<hub::Task>()?;
    module.add_class::<hub::Hub>()?;
    module.add_class::<hub::Stats>()?;
    module.add_class::<hub::Endpoint>()?;
    module.add_class::<outlet::HostDelivery>()?;
    module.add_class::<outlet::Outlet>()?;
    module.add_class::<port::Pending>()?;
    module.add_class::<port::Port>()?;
    module.add_class::<stream::Export>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<stream::Tail>()?;
    module.add_class::<stream::Writer>()?;
    module.add_class::<stream::WriterHandle>()?;
    module.add_class::<call::Room>()?;
    module.add_class::<webhook::DecryptionKeys>()?;
    module.add_class::<webhook::Webhook>()?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(call::check_event, module)?)?;
    module.add_function(wrap_pyfunction!(call::check_fire, module)?)?;
    module.add_function(wrap_pyfunction!(outlet::check_route, module)?)?;
    module.add_function(wrap_pyfunction!(webhook::challenge_answer, module)?)?;
    module.add_function(wrap_pyfunction!(webhook::receiver_document, module)?)?;
    module.add_function(wrap_pyfunction!(error_table, module)?)?;
    module.add_function(wrap_pyfunction!(fanout::log_passes, module)?)?;
    module.add_function(wrap_pyfunction!(hub::close_all, module)?)?;
    module.add_function(wrap_pyfunction!(hub::default_retention, module)?)?;
    module.add_function(wrap_pyfunction!(log_waits, module)?)?;
    module.add_function(wrap_pyfunction!(take_log, module)?)
}

/// Tells the library that this process is about to fork.
///
/// The GIL stays held: a thread that took it meanwhile could wait for the stores, which open again only after the fork,
/// for which this thread would need the GIL.
#[pyfunction]
fn before_fork() {
    bridge::before_fork();
}

/// Tells the library that the fork is done, in the parent.
#[pyfunction]
fn after_fork_in_parent() {
    bridge::after_fork_in_parent();
}

/// Tells the library that this process was just forked.
#[pyfunction]
fn after_fork() {
    bridge::after_fork();
}

/// The error table: (name, number in C, retryable).
#[pyfunction]
fn error_table() -> Vec<(&'static str, u32, bool)> {
    bridge::error_table().map(|row| (row.name, row.number, row.retryable)).collect()
}

/// Whether there is something for Python's log.
#[pyfunction]
fn log_waits() -> bool {
    bridge::log_waits()
}

/// Takes what there is for Python's log: (level as Python counts them, logger, message) and how many lines had to go.
#[pyfunction]
fn take_log() -> (Vec<(u8, String, String)>, u64) {
    let (records, dropped) = bridge::take_log();
    let plain = records.into_iter().map(|record| {
        let level = match record.level {
            bridge::LogLevel::Warning => 30,
            bridge::LogLevel::Error => 40,
        };
        (level, record.target, record.message)
    });
    (plain.collect(), dropped)
}
