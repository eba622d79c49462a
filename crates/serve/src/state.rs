//! The state folder: private, and never half written.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt as _},
    path::{Path, PathBuf},
    process,
};

use crate::Error;

/// A folder that only its owner can read, locked against a second writer.
pub(crate) struct State {
    folder: PathBuf,
    /// Holds the lock until dropped.
    _lock: File,
}

impl State {
    /// Opens the folder, makes it where it is missing, and waits for the lock.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Self, Error> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => default_folder().ok_or(Error::NoStateFolder)?,
        };
        Self::locked(&folder).map_err(|cause| Error::StateFolder { folder, cause })
    }

    fn locked(folder: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        // The path is handed to other programs, which may have other working folders.
        let folder = fs::canonicalize(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))?;
        lock.lock()?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Takes a private key back from everybody else, to whom a copy or an older version has given it.
    pub(crate) fn keep_private(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        let mend = || -> io::Result<()> {
            let mut permissions = match fs::metadata(&path) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
                metadata => metadata?.permissions(),
            };
            if permissions.mode() & 0o077 != 0 {
                permissions.set_mode(0o600);
                fs::set_permissions(&path, permissions)?;
            }
            Ok(())
        };
        mend().map_err(|cause| Error::file(&path, cause))
    }

    /// The file's text; `None` where there is no such file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::file(&path, cause)),
        }
    }

    /// Replaces a file in one step; a reader sees the old text or the new one.
    pub(crate) fn write(&self, name: &str, mode: u32, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        let temporary = self.path(&format!("{name}.{}.new", process::id()));
        let replace = || {
            // Left over from a process of the same number that was killed here.
            match fs::remove_file(&temporary) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
            let mut file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(mode)
                .open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        replace().map_err(|cause| Error::file(&path, cause))
    }
}

/// `$XDG_STATE_HOME/trilane`, else `~/.local/state/trilane`. The XDG specification says that a
/// relative path is to be ignored.
fn default_folder() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .map(|folder| folder.join("trilane"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_is_told_with_the_way_out() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let folder = root.path().join("file/state");
        let told = State::open(Some(&folder)).err().unwrap().to_string();
        assert!(told.contains("file/state: "), "{told}");
        assert!(told.contains("--state DIR"), "{told}");
    }

    #[test]
    fn folder_and_files_are_private_and_replaced_whole() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let state = State::open(Some(&folder)).unwrap();
        assert_eq!(state.read("key").unwrap(), None);
        state.write("key", 0o600, "first and longer").unwrap();
        state.write("key", 0o600, "second").unwrap();
        assert_eq!(state.read("key").unwrap().as_deref(), Some("second"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("key")), 0o600);
        fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o644)).unwrap();
        state.keep_private("key").unwrap();
        state.keep_private("none").unwrap();
        assert_eq!(mode(&folder.join("key")), 0o600);
        let names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 2, "only the file and the lock: {names:?}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Err(error) = State::open(Some(&file.path().join("below"))) else {
            panic!("a folder below a file");
        };
        assert!(error.to_string().contains("below"), "{error}");
    }
}
