//! The SQLite store does what every store must do.

use tempfile::TempDir;
use tidings_store::Store;
use tidings_store::testkit::Harness;
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

/// A directory with one store in it.
struct InDirectory(TempDir);

impl InDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }
}

impl Harness for InDirectory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(SqliteOptions::new(self.0.path().join("store.db"))).expect("opens"))
    }

    fn is_durable(&self) -> bool {
        true
    }
}

tidings_store::store_tests!(InDirectory::new(), shared, durable);
