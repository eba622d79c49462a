//! `--html`: a result as a page with charts. Who starts the command brings what draws: this crate has
//! none.

use std::path::Path;

use serde::Serialize;

use crate::{FAILED, USAGE, tell};

/// What makes pages of results.
pub trait Pages {
    /// Whether it can make one, and `file` can be written, before anything is sent.
    fn check(&self, file: &Path) -> Result<(), String>;

    /// Makes a page of `result`, a document of JSON, and writes it to `file`.
    fn write(&self, result: &str, file: &Path) -> Result<(), String>;
}

/// A page that was asked for.
pub(crate) struct Page<'a> {
    pages: &'a dyn Pages,
    file: &'a Path,
}

impl<'a> Page<'a> {
    /// The page for `file`, where one was asked for; else the exit code and what is wrong.
    pub(crate) fn of(
        file: Option<&'a Path>,
        pages: Option<&'a dyn Pages>,
    ) -> Result<Option<Self>, (u8, String)> {
        let Some(file) = file else {
            return Ok(None);
        };
        let Some(pages) = pages else {
            let why = "--html: this is the native program alone, which draws no charts: install the whole command \
                       (pip install 'trilane[lab]'), or give it the result later: -o run.json --format json, \
                       then trilane report run.json";
            return Err((USAGE, why.to_owned()));
        };
        match pages.check(file) {
            Ok(()) => Ok(Some(Self { pages, file })),
            Err(error) => Err((FAILED, format!("--html: {error}"))),
        }
    }

    /// Makes the page and says where it is.
    pub(crate) fn write(&self, result: &impl Serialize) -> Result<(), String> {
        let json = serde_json::to_string(result)
            .map_err(|error| format!("--html: the result cannot be written as JSON: {error}"))?;
        self.pages
            .write(&json, self.file)
            .map_err(|error| format!("--html: cannot write {}: {error}", self.file.display()))?;
        tell(format_args!("report: {}", self.file.display()));
        Ok(())
    }
}
