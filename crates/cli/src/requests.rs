//! Files with the requests of a run: JSON Lines, HTTP Archives (HAR), `.http` files and scenarios.

mod expect;
mod har;
mod http;
mod lines;
mod scenario;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use trilane_engine::{Listed, PlanError, Scenario};
use trilane_grpc::status::Code;
use trilane_units as units;
use url::{Position, Url};

use crate::complain;

/// Fields that say where a message goes or ends: each version has its own, and the request gets them
/// anew.
const OF_THE_CONNECTION: [&str; 9] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "expect",
];

/// Which gRPC method a line of a file calls, and with what.
#[derive(Debug, PartialEq)]
pub(crate) struct Called {
    /// None: that of the command line.
    pub(crate) method: Option<String>,
    /// What it sends.
    pub(crate) body: CalledBody,
    /// Status codes with which it counts as ok; empty: those of the run.
    pub(crate) expected: Vec<Code>,
}

/// The messages of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum CalledBody {
    /// Those of the command line.
    Run,
    /// JSON, of several one after the other.
    Json(String),
    /// One, encoded.
    Encoded(Vec<u8>),
}

/// What is wrong in a file: where, as line and column, and what.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    line: usize,
    column: usize,
    text: String,
}

impl Wrong {
    fn new(line: usize, column: usize, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { line, column, text }
    }

    /// What `error` says of JSON whose first line is `line` of the file, without the place.
    fn json(line: usize, error: &serde_json::Error) -> Self {
        let told = error.to_string();
        let told = told.split(" at line ").next().unwrap_or_default();
        let (line, column) = (line + error.line().max(1) - 1, error.column().max(1));
        Self::of_shape(line, column, told)
    }

    /// What serde says of a value of the wrong kind, whose kinds are Rust's: in the words of the file.
    fn of_shape(line: usize, column: usize, told: &str) -> Self {
        let kinds = [
            ("expected u16", "expected a whole number up to 65535"),
            ("expected u32", "expected a whole number up to 4294967295"),
            ("expected a boolean", "expected true or false"),
            ("expected a string", "expected text"),
            ("expected a sequence", "expected a list"),
            ("expected a map", "expected an object"),
            ("invalid type: sequence", "invalid type: a list"),
            ("invalid type: map", "invalid type: an object"),
        ];
        let text = kinds.iter().fold(told.to_owned(), |text, (kind, plain)| {
            text.replace(kind, plain)
        });
        Self::new(line, column, text)
    }
}

/// Reads `--requests FILE`; `base` is the URL of the command line, which those of the file may be
/// relative to. Where they are `calls` of gRPC, or lines say so, what each calls.
pub(crate) fn read(
    file: &Path,
    base: Option<&str>,
    calls: bool,
) -> Result<(Vec<Listed>, Vec<Called>), PlanError> {
    let name = file.display().to_string();
    let text = text(file, "--requests")?;
    let is_http = file
        .extension()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("http") || kind.eq_ignore_ascii_case("rest"));
    let folder = file.parent().unwrap_or(Path::new(""));
    if is_http && calls {
        return Err(PlanError::Usage(format!(
            "--requests: {name} has requests of HTTP, and with --grpc they are calls: write them as JSON Lines"
        )));
    }
    let parsed = if is_http {
        http::parse(&text, folder).map(|listed| (listed, Vec::new()))
    } else {
        lines::parse(&text, calls)
    };
    let (mut listed, called) = parsed.map_err(|wrong| at(&name, &wrong))?;
    if listed.is_empty() {
        return Err(PlanError::Usage(format!(
            "--requests: {name} has no request: write one a line, such as {{\"url\": \"/hello\"}}"
        )));
    }
    for (line, each) in &mut listed {
        each.place = format!("{name}:{line}");
    }
    let listed = listed.into_iter().map(|(_, each)| each);
    Ok((at_base(listed.collect(), base)?, called))
}

/// The requests of `listed` with the server of `base` in those that name none.
fn at_base(mut listed: Vec<Listed>, base: Option<&str>) -> Result<Vec<Listed>, PlanError> {
    let base = base
        .map(|text| Url::parse(text).map_err(|_| not_a_url(text)))
        .transpose()?;
    for each in &mut listed {
        // Not by the parser of URLs: it would change the braces of templates.
        match &base {
            _ if !each.url.starts_with('/') => (),
            Some(base) => each.url.insert_str(0, &base[..Position::BeforePath]),
            None => {
                return Err(PlanError::Usage(format!(
                    "{}: {:?} is a path without a server: type a URL as well, such as http://127.0.0.1:8080",
                    each.place, each.url
                )));
            }
        }
    }
    Ok(listed)
}

/// Reads `--scenario FILE`; `base` is the URL of the command line, which those of the file may be
/// relative to.
pub(crate) fn read_scenario(
    file: &Path,
    base: Option<&str>,
) -> Result<(Vec<Listed>, Scenario), PlanError> {
    let name = file.display().to_string();
    let text = text(file, "--scenario")?;
    let is_json = file
        .extension()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("json"));
    let parsed = if is_json {
        scenario::parse_json(&text, file)
    } else {
        scenario::parse_toml(&text, file)
    };
    let (listed, scenario) = parsed.map_err(|wrong| at(&name, &wrong))?;
    Ok((at_base(listed, base)?, scenario))
}

/// Reads `--har FILE`; of the requests in it those to `hosts`, where some are given.
pub(crate) fn read_har(file: &Path, hosts: &[String]) -> Result<Vec<Listed>, PlanError> {
    let name = file.display().to_string();
    let text = text(file, "--har")?;
    let archive = har::parse(&text).map_err(|wrong| at(&name, &wrong))?;
    let (listed, notes) = har::choose(archive, hosts)
        .map_err(|text| PlanError::Usage(format!("--har: {name} {text}")))?;
    for note in notes {
        complain(format!("--har: {name}: {note}"));
    }
    Ok(listed)
}

/// The content of a file that another in `folder` names, which it sends. One that lies elsewhere is told: who takes over a
/// file of requests need not know what it reads.
fn named(folder: &Path, file: &Path) -> io::Result<Vec<u8>> {
    let content = trilane_files::read(file)?;
    tell_outside(folder, file);
    Ok(content)
}

fn tell_outside(folder: &Path, file: &Path) {
    // On other machines of a cluster the copies lie together.
    if !trilane_files::are_copies() && is_outside(folder, file) {
        complain(format!(
            "note: {} is read, and sent: it is not in the folder of the file that names it",
            file.display()
        ));
    }
}

/// Whether a file lies outside of the folder, also through links; a missing file does not.
fn is_outside(folder: &Path, file: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    match (folder.canonicalize(), file.canonicalize()) {
        (Ok(folder), Ok(file)) => !file.starts_with(folder),
        _ => false,
    }
}

/// Files of the placeholders `{csv:FILE:COLUMN}` in a text.
fn tables(text: &str) -> BTreeSet<&str> {
    let behind = text.split("{csv:").skip(1);
    behind
        .filter_map(|rest| rest.split(['}', '\n']).next()?.rsplit_once(':'))
        .map(|(file, _)| file)
        .collect()
}

fn text(file: &Path, flag: &str) -> Result<String, PlanError> {
    let bytes = trilane_files::read(file).map_err(|error| {
        let name = file.display().to_string();
        // Other tools have a number of requests there.
        if flag == "--requests" && units::count(&name).is_ok() {
            return PlanError::Usage(format!(
                "{flag} {name}: there is no such file: for a number of requests type -n {name}"
            ));
        }
        PlanError::Environment(format!("{flag}: cannot read {name}: {error}"))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        PlanError::Usage(format!(
            "{}:{line}: this line is not UTF-8 text",
            file.display()
        ))
    })?;
    if flag != "--har" {
        let folder = file.parent().unwrap_or(Path::new(""));
        (tables(&text).into_iter()).for_each(|table| tell_outside(folder, Path::new(table)));
    }
    Ok(text)
}

fn at(name: &str, wrong: &Wrong) -> PlanError {
    let Wrong { line, column, text } = wrong;
    PlanError::Usage(format!("{name}:{line}:{column}: {text}"))
}

fn not_a_url(text: &str) -> PlanError {
    PlanError::Usage(format!(
        "{text:?} is not a URL: type http://{text} or https://{text}"
    ))
}

fn is_of_the_connection(name: &str) -> bool {
    name.starts_with(':')
        || OF_THE_CONNECTION
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_lie_elsewhere_are_known() {
        let root = tempfile::tempdir().unwrap();
        let (own, other) = (root.path().join("own"), root.path().join("other"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("body"), "x").unwrap();
        }
        std::os::unix::fs::symlink(other.join("body"), own.join("link")).unwrap();
        assert!(!is_outside(&own, &own.join("body")));
        for elsewhere in ["../other/body", "link"] {
            assert!(is_outside(&own, &own.join(elsewhere)), "{elsewhere}");
        }
        assert!(!is_outside(&own, &own.join("none")));
        assert!(is_outside(Path::new(""), &own.join("body")));
        let text = "a {csv:/etc/passwd:root} {csv:a:b.csv:c}\n{csv:cut {seq}";
        assert_eq!(tables(text), BTreeSet::from(["/etc/passwd", "a:b.csv"]));
    }
}
