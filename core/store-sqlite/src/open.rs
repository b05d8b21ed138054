//! Where a store stands: its files, and whether the place can keep its promises.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tidings_store::{StoreError, StoreErrorKind};

use crate::error::{corrupt, system};

/// The oldest SQLite without the WAL-reset bug (3.7.0 to 3.51.2 damage a database when two connections write and
/// checkpoint at once, <https://sqlite.org/wal.html#walresetbug>).
const OLDEST_SQLITE: i32 = 3_051_003;

/// One page of the smallest size (<https://sqlite.org/fileformat.html>, 1.3.2). SQLite takes a shorter file for an empty one.
const SMALLEST_DATABASE: u64 = 512;

/// Refuses an SQLite that is known to lose data.
pub(crate) fn check_engine(version: i32) -> Result<(), StoreError> {
    if version >= OLDEST_SQLITE {
        return Ok(());
    }
    let (major, minor, patch) = (version / 1_000_000, version / 1_000 % 1_000, version % 1_000);
    let why = format!(
        "SQLite {major}.{minor}.{patch} is too old: versions before 3.51.3 can damage a database that several \
         connections write to (sqlite.org/wal.html#walresetbug); build with the bundled one"
    );
    Err(StoreError::new(StoreErrorKind::Unsupported, why))
}

/// The files of one store. The database's path is absolute and free of symbolic links, so that processes that name it
/// differently agree on the names of the files beside it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) db: PathBuf,
    pub(crate) dir: PathBuf,
}

impl Place {
    /// Resolves the path of a database that may not exist yet; its directory must.
    pub(crate) fn resolve(path: &Path) -> Result<Self, StoreError> {
        let io = |why: String| StoreError::new(StoreErrorKind::Io, why);
        let name = path.file_name().ok_or_else(|| io(format!("\"{}\" names no file", path.display())))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent_is = std::fs::canonicalize(parent)
            .map_err(|error| system(&error, format_args!("the directory {} of the store", parent.display())))?;
        if !parent_is.is_dir() {
            return Err(io(format!("{} is not a directory", parent.display())));
        }
        let db = match std::fs::canonicalize(path) {
            Ok(db) => db,
            Err(error) if error.kind() == io::ErrorKind::NotFound => parent_is.join(name),
            Err(error) => return Err(system(&error, format_args!("the store {}", path.display()))),
        };
        if db.is_dir() {
            return Err(io(format!("{} is a directory, not a store", db.display())));
        }
        let dir = db.parent().unwrap_or(&parent_is).to_owned();
        Ok(Self { db, dir })
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        sibling(&self.db, "-key")
    }

    /// Creates the database file, empty and with mode 0600, unless there is one. SQLite gives its other files the mode
    /// of this one. An existing file is never opened here: to close it would drop every lock this process has on it.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        // The log only comes after the header is in the database file, so this order of looking cannot err.
        let log = std::fs::metadata(sibling(&self.db, "-wal")).map_or(0, |meta| meta.len());
        let fail = |error: io::Error| system(&error, format_args!("create {}", self.db.display()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.db) {
            Ok(file) => {
                in_mode_0600(&file).map_err(fail)?;
                sync_dir(&self.db).map_err(fail)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = std::fs::metadata(&self.db).map_err(fail)?;
                if !found.is_file() {
                    return Err(StoreError::new(StoreErrorKind::Io, format!("{} is not a file", self.db.display())));
                }
                if found.len() == 0 && log > 0 {
                    return Err(corrupt(format!(
                        "{} is empty but its log is not: its content was lost",
                        self.db.display()
                    )));
                }
                if (1..SMALLEST_DATABASE).contains(&found.len()) {
                    let why = format!(
                        "{} has {} bytes: it is no database, or the rest was lost",
                        self.db.display(),
                        found.len()
                    );
                    return Err(corrupt(why));
                }
                Ok(())
            }
            Err(error) => Err(fail(error)),
        }
    }

    /// Device and inode of the database file: what SQLite's locks stand on.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        std::fs::metadata(&self.db).map(|meta| (meta.dev(), meta.ino()))
    }

    /// Refuses a directory on a file system that several hosts share: a write-ahead log needs memory shared by all
    /// processes, and locks over a network are not dependable (<https://sqlite.org/wal.html>, field case B27).
    ///
    /// Only kinds known to be remote are refused. FUSE, 9p and overlay pass, because containers and virtual machines use
    /// them for local disks; where shared memory does not work on them, SQLite itself refuses the log.
    pub(crate) fn check_file_system(&self) -> Result<(), StoreError> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let found = rustix::fs::statfs(&self.dir)
                .map_err(|error| system(&error.into(), format_args!("the file system of {}", self.dir.display())))?;
            // The field's width differs between targets; every magic number has 32 bits.
            if let Some(name) = network_file_system(found.f_type as u32) {
                let why = format!(
                    "{} lies on {name}: a SQLite store needs a local disk, its log is shared memory of one host",
                    self.dir.display()
                );
                return Err(StoreError::new(StoreErrorKind::Unsupported, why));
            }
        }
        Ok(())
    }
}

/// The name of a file system that several hosts share, by its `statfs` magic (Linux `magic.h` and the file systems' own sources).
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    allow(dead_code, reason = "statfs gives no magic there")
)]
fn network_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB/CIFS",
        0x0000_564c => "NCP",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0xaad7_aaea => "PanFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        _ => return None,
    })
}

/// The file named like `path` with `suffix` after it.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Gives a file that was just created its mode: the umask may have taken bits away, and it is the process's to set.
pub(crate) fn in_mode_0600(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Makes the name of a new file durable.
pub(crate) fn sync_dir(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_with_the_wal_reset_bug_is_refused_by_name() {
        let error = check_engine(3_040_001).unwrap_err(); // Debian 12
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.to_string().contains("3.40.1"), "{error}");
        assert!(check_engine(3_051_002).is_err());
        assert!(check_engine(3_051_003).is_ok());
        assert!(check_engine(rusqlite::version_number()).is_ok());
    }

    /// Values of Linux's include/uapi/linux/magic.h.
    #[test]
    fn knows_what_is_remote() {
        for remote in [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x7375_7245, 0x00c3_6400, 0x564c] {
            assert!(network_file_system(remote).is_some(), "{remote:x}");
        }
        for local in [
            0xef53,      /* ext */
            0x0102_1994, /* tmpfs */
            0x9123_683e, /* btrfs */
            0x5846_5342, /* xfs */
            0x794c_7630, /* overlay */
            0x6573_5546, /* fuse */
            0x0102_1997, /* 9p */
        ] {
            assert_eq!(network_file_system(local), None, "{local:x}");
        }
    }

    #[test]
    fn a_missing_directory_or_a_name_that_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for bad in [dir.path().join("none/s.db"), PathBuf::from("/"), PathBuf::from(""), dir.path().to_owned()] {
            let error = Place::resolve(&bad).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Io, "{error}");
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(Place::resolve(&file.join("s.db")).is_err());
    }

    #[test]
    fn a_link_and_its_target_are_one_store() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.db"), dir.path().join("link.db"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let (one, two) = (Place::resolve(&real).unwrap(), Place::resolve(&link).unwrap());
        assert_eq!(one.db, two.db);
        assert_eq!(one.key_file(), two.key_file());
    }

    #[test]
    fn names_that_mean_something_to_sqlite_are_plain_files_here() {
        let dir = tempfile::tempdir().unwrap();
        for name in [":memory:", "file:x?mode=memory", "x?y#z%41"] {
            let place = Place::resolve(&dir.path().join(name)).unwrap();
            assert!(place.db.is_absolute() && place.db.ends_with(name));
        }
    }

    #[test]
    fn an_emptied_database_with_a_log_is_not_an_empty_store() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::resolve(&dir.path().join("s.db")).unwrap();
        place.create().unwrap();
        assert_eq!(std::fs::metadata(&place.db).unwrap().permissions().mode() & 0o777, 0o600);
        place.create().unwrap();
        std::fs::write(sibling(&place.db, "-wal"), "x").unwrap();
        assert_eq!(place.create().unwrap_err().kind(), StoreErrorKind::Corrupt);
    }
}
