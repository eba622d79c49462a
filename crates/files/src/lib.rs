//! Files that a command line names, and those that these name.
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

#[derive(Default)]
struct Files {
    /// What stands for the files of the machine that read the command line first.
    copies: Option<Copies>,
    /// Names of those that were read, where they are recorded.
    read: Option<BTreeSet<String>>,
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

/// Does `work`, and tells the names of all files that it has read by [`read`] or told by [`note`].
pub fn recorded<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let during = FILES.with_borrow(|files| Files {
        copies: files.copies.clone(),
        read: Some(BTreeSet::new()),
    });
    let _restored = Restored(Some(FILES.replace(during)));
    let result = work();
    let read = FILES.with_borrow_mut(|files| files.read.take());
    (result, read.unwrap_or_default().into_iter().collect())
}

/// Does `work`, in which [`read`] finds a file in `copies` and nowhere else.
pub fn with_copies<T>(copies: Copies, work: impl FnOnce() -> T) -> T {
    let during = Files {
        copies: Some(copies),
        read: None,
    };
    let _restored = Restored(Some(FILES.replace(during)));
    work()
}

/// The content of a file. Where there are copies, a file without one is not found.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let name = name(path);
    let copy = FILES.with_borrow(|files| files.copies.as_ref().map(|all| all.get(&name).cloned()));
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
        Some(copies) => copies.contains_key(&name(path)),
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
            read.insert(name(path));
        }
    });
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
            read_to_string(&typed).unwrap()
        });
        assert_eq!(content, "as typed");
        let name = typed.to_str().unwrap().to_owned();
        assert_eq!(names, [name.as_str()]);

        let copies = HashMap::from([(name, copy.clone())]);
        with_copies(copies, || {
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
