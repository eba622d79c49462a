//! Fields of `-H`: typed, of a file by `@FILE`, and with values of the environment by `${NAME}`, so that no secret has to
//! stand on a command line, which others on the machine can read.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use trilane_engine::PlanError;

/// Fields as `Name: value`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) all: Vec<String>,
    /// Names of those that a file or the environment has given, in part or whole.
    pub(super) hidden: Vec<String>,
}

/// Names of variables are in capitals: `{seq}` and its like are placeholders, also behind a dollar sign.
static VARIABLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\$\{([A-Z_][A-Z0-9_]*)\}").ok());

/// Reads what was typed for each `-H`.
pub(super) fn read(typed: &[String]) -> Result<Fields, PlanError> {
    let mut fields = Fields::default();
    for text in typed {
        let Some(file) = text.strip_prefix('@') else {
            fields.push(text, false, "-H")?;
            continue;
        };
        let content = trilane_files::read_to_string(Path::new(file)).map_err(|error| {
            PlanError::Environment(format!("-H @{file}: cannot read it: {error}"))
        })?;
        for (number, line) in content.lines().enumerate() {
            if !line.trim().is_empty() {
                fields.push(line, true, &format!("-H @{file}, line {}", number + 1))?;
            }
        }
    }
    Ok(fields)
}

impl Fields {
    fn push(&mut self, text: &str, of_file: bool, place: &str) -> Result<(), PlanError> {
        let Some((name, _)) = text.split_once(':') else {
            // It may be a secret: it is not repeated.
            return Err(PlanError::Usage(format!(
                "{place} is not a header: there is no colon: write 'Name: value'"
            )));
        };
        let name = name.trim().to_owned();
        let filled = filled(text).map_err(|variable| {
            PlanError::Usage(format!(
                "{place} {name}: the variable {variable} is not set: type for example export {variable}=…"
            ))
        })?;
        if of_file || filled.is_some() {
            self.hidden.push(name);
        }
        self.all.push(filled.unwrap_or_else(|| text.to_owned()));
        Ok(())
    }
}

/// The text with the values of the variables in it, where it has any; an error is the name of one that is not set.
fn filled(text: &str) -> Result<Option<String>, String> {
    let Some(pattern) = VARIABLE.as_ref() else {
        return Ok(None);
    };
    let (mut filled, mut end) = (String::new(), 0);
    for found in pattern.captures_iter(text) {
        let (Some(whole), Some(name)) = (found.get(0), found.get(1)) else {
            continue;
        };
        let value =
            trilane_files::variable(name.as_str()).ok_or_else(|| name.as_str().to_owned())?;
        filled.push_str(&text[end..whole.start()]);
        filled.push_str(&value);
        end = whole.end();
    }
    Ok((end > 0).then(|| filled + &text[end..]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn fields_come_from_files_and_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fields");
        std::fs::write(&file, "x-tenant: 7\n\nAuthorization: Bearer ${T}\n").unwrap();
        let variables = HashMap::from([("T".to_owned(), "s".to_owned())]);
        let copies = HashMap::from([(file.display().to_string(), file.clone())]);
        let typed = [
            "x: ${seq} {seq}".to_owned(),
            "x-key: a${T}b".to_owned(),
            format!("@{}", file.display()),
        ];
        let (fields, told) = trilane_files::with_copies(copies, variables, || {
            let told = read(&["x-key: ${U}".to_owned()]).unwrap_err().to_string();
            (read(&typed).unwrap(), told)
        });
        assert_eq!(
            fields.all,
            [
                "x: ${seq} {seq}",
                "x-key: asb",
                "x-tenant: 7",
                "Authorization: Bearer s"
            ]
        );
        assert_eq!(fields.hidden, ["x-key", "x-tenant", "Authorization"]);
        assert!(
            told.contains("-H x-key: the variable U is not set"),
            "{told}"
        );
        let told = read(&["geheim".to_owned()]).unwrap_err().to_string();
        assert!(
            told.contains("no colon") && !told.contains("geheim"),
            "{told}"
        );
    }
}
