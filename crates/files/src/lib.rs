//! Files that a command line names, and those that these name; and variables of the environment that it names.
//!
//! A command that is carried out on several machines is read on one of them. [`recorded`] tells which files it
//! takes there, and [`with_copies`] has the same command read copies of them on another machine, by the same
//! names. Both are about what the calling thread reads; without them a file is read where it lies.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Copies of files, by the names that the command line and other files have for them.
pub type Copies = HashMap<String, PathBuf>;
/// Values of variables of the environment, by their names.
pub type Variables = HashMap<String, String>;

#[derive(Default)]
struct Files {
    /// What stands for the files of the machine that read the command line first.
    copies: Option<(Copies, Variables)>,
    /// Names of those that were read, where they are recorded.
    read: Option<Read>,
}

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Names of files.
    pub files: BTreeSet<String>,
    /// Names of variables of the environment.
    pub variables: BTreeSet<String>,
}

thread_local! {
    static FILES: RefCell<Files> = RefCell::default();
}

/// Puts the thread's files back as they were.
struct Restored(Option<Files>);

impl Drop for Restored {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            FILES.set(before);
        }
    }
}

/// Does `work`, and returns the names of all files that it has read by [`read`] or told by [`note`], and of all variables
/// that it has read by [`variable`].
pub fn recorded<T>(work: impl FnOnce() -> T) -> (T, Read) {
    let during = FILES.with_borrow(|files| Files {
        copies: files.copies.clone(),
        read: Some(Read::default()),
    });
    let _restored = Restored(Some(FILES.replace(during)));
    let result = work();
    let read = FILES.with_borrow_mut(|files| files.read.take());
    (result, read.unwrap_or_default())
}

/// Does `work`, in which [`read`] finds a file in `copies`, [`variable`] one in `variables`, and neither elsewhere.
pub fn with_copies<T>(copies: Copies, variables: Variables, work: impl FnOnce() -> T) -> T {
    let during = Files {
        copies: Some((copies, variables)),
        read: None,
    };
    let _restored = Restored(Some(FILES.replace(during)));
    work()
}

/// The content of a file. Where there are copies, a file without one is not found.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let name = name(path);
    let copy = FILES.with_borrow(|files| {
        files
            .copies
            .as_ref()
            .map(|(all, _)| all.get(&name).cloned())
    });
    let content = match copy {
        None => fs::read(path)?,
        Some(Some(copy)) => fs::read(copy)?,
        Some(None) => {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no copy of this file came with the command line",
            ));
        }
    };
    note(path);
    Ok(content)
}

/// As [`read`], of a file that is text in UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Whether there is such a file, or a copy of it.
pub fn is_file(path: &Path) -> bool {
    FILES.with_borrow(|files| match &files.copies {
        Some((copies, _)) => copies.contains_key(&name(path)),
        None => path.is_file(),
    })
}

/// Whether there is such a folder. Where there are copies, whoever made them has looked: of a folder whose files
/// were not read there is none.
pub fn is_dir(path: &Path) -> bool {
    are_copies() || path.is_dir()
}

/// Whether copies stand for the files.
pub fn are_copies() -> bool {
    FILES.with_borrow(|files| files.copies.is_some())
}

/// Whether files are read in order to be read elsewhere as well: they are recorded, or copies stand for them.
pub fn are_shared() -> bool {
    FILES.with_borrow(|files| files.copies.is_some() || files.read.is_some())
}

/// A file has been read otherwise than by [`read`].
pub fn note(path: &Path) {
    FILES.with_borrow_mut(|files| {
        if let Some(read) = &mut files.read {
            read.files.insert(name(path));
        }
    });
}

/// The value of a variable of the environment, where it is set to text.
pub fn variable(name: &str) -> Option<String> {
    FILES.with_borrow_mut(|files| {
        if let Some(read) = &mut files.read {
            read.variables.insert(name.to_owned());
        }
        match &files.copies {
            Some((_, variables)) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        }
    })
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_told_and_read_again_from_copies() {
        let folder = tempfile::tempdir().unwrap();
        let (typed, copy) = (folder.path().join("typed"), folder.path().join("copy"));
        fs::write(&typed, "as typed").unwrap();
        fs::write(&copy, "of the copy").unwrap();
        let (content, names) = recorded(|| {
            assert!(read(&folder.path().join("missing")).is_err());
            assert_eq!(variable("NO_SUCH_VARIABLE"), None);
            read_to_string(&typed).unwrap()
        });
        assert_eq!(content, "as typed");
        let name = typed.to_str().unwrap().to_owned();
        assert_eq!(names.files.iter().collect::<Vec<_>>(), [&name]);

        assert_eq!(
            names.variables.iter().collect::<Vec<_>>(),
            ["NO_SUCH_VARIABLE"]
        );
        let copies = HashMap::from([(name, copy.clone())]);
        let variables = HashMap::from([("NO_SUCH_VARIABLE".to_owned(), "7".to_owned())]);
        with_copies(copies, variables, || {
            assert_eq!(variable("NO_SUCH_VARIABLE").as_deref(), Some("7"));
            // What this machine has is not what was meant.
            assert_eq!(variable("PATH"), None);
            assert_eq!(read(&typed).unwrap(), b"of the copy");
            assert!(is_file(&typed) && is_dir(Path::new("/no/such")));
            // It lies there, and did not come with the command line.
            let kind = read(&copy).unwrap_err().kind();
            assert_eq!((kind, is_file(&copy)), (io::ErrorKind::NotFound, false));
        });
        assert_eq!(read(&copy).unwrap(), b"of the copy");
        assert!(!are_copies());
    }
}
