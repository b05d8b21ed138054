//! The key file beside the database: 32 random bytes, mode 0600.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tidings_store::{StoreError, StoreErrorKind};

use crate::error::system;
use crate::open::{in_mode_0600, sibling, sync_dir};
use crate::seal::random;

/// The key in the file, if there is one.
pub(crate) fn load(path: &Path) -> Result<Option<[u8; 32]>, StoreError> {
    let found = match std::fs::read(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system(&error, format_args!("read the key file {}", path.display()))),
    };
    if std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "the key file can be read by others than its owner");
    }
    let key = found.try_into().map_err(|found: Vec<u8>| {
        let why = format!("the key file {} holds {} bytes, not 32", path.display(), found.len());
        StoreError::new(StoreErrorKind::WrongKey, why)
    })?;
    Ok(Some(key))
}

/// The key in the file, made if there is none. Of several processes that make it at once, one wins and all get its key:
/// the file appears under its name whole, synced, and never in place of another.
pub(crate) fn load_or_create(path: &Path) -> Result<[u8; 32], StoreError> {
    if let Some(key) = load(path)? {
        return Ok(key);
    }
    let mut drawn = [0; 40];
    random(&mut drawn)?;
    let (key, mark) = drawn.split_at(32);
    let mark: String = mark.iter().map(|byte| format!("{byte:02x}")).collect();
    let draft = sibling(path, &format!(".{mark}"));
    let made = publish(key, &draft, path);
    let _ = std::fs::remove_file(&draft);
    made.map_err(|error| system(&error, format_args!("make the key file {}", path.display())))?;
    load(path)?.ok_or_else(|| {
        StoreError::new(StoreErrorKind::Io, format!("the key file {} vanished while it was made", path.display()))
    })
}

fn publish(key: &[u8], draft: &Path, path: &Path) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    in_mode_0600(&file)?;
    file.write_all(key)?;
    file.sync_all()?;
    match appear(draft, path) {
        Ok(()) => {}
        // Another process was first, or it cleaned our draft away because its key stands already.
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {}
        Err(error) => return Err(error),
    }
    sync_dir(path)
}

/// Gives the draft its name unless something has that name. File systems without hard links know a rename that
/// replaces nothing.
fn appear(draft: &Path, path: &Path) -> io::Result<()> {
    match std::fs::hard_link(draft, path) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Err(error) if !matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            Ok(renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE)?)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_once_with_mode_0600_and_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db-key");
        let key = load_or_create(&path).unwrap();
        assert_eq!(load_or_create(&path).unwrap(), key);
        assert_eq!(std::fs::read(&path).unwrap(), key);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let other = load_or_create(&dir.path().join("other-key")).unwrap();
        assert_ne!(key, other);
    }

    #[test]
    fn a_key_file_of_another_length_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        for bytes in [&b""[..], &[1; 31], &[1; 33]] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(load_or_create(&path).unwrap_err().kind(), StoreErrorKind::WrongKey);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn threads_that_race_get_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8).map(|_| scope.spawn(|| load_or_create(&path).unwrap())).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }
}
