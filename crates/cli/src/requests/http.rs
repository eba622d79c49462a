//! `.http` files, as editors run them: requests as they are on the wire, with `###` between them.
//!
//! Of their language, which has no standard: `@name = value` and `{{name}}`, comments, `GET` left out, a
//! query on lines of its own, and `< FILE` for a body from a file. `# @weight 3` and `# @expect 200-299`
//! are ours. Scripts and `{{$…}}` are not understood, and said so.

use std::collections::HashMap;
use std::path::Path;

use trilane_engine::Listed;

use super::{Wrong, is_of_the_connection};
use crate::load::status_ranges;

/// A line with its number.
type Line<'a> = (usize, &'a str);

/// The requests of `text`, each with the line that it begins on; files are relative to `folder`.
pub(super) fn parse(text: &str, folder: &Path) -> Result<Vec<(usize, Listed)>, Wrong> {
    let lines: Vec<Line<'_>> = (1..).zip(text.lines()).collect();
    let mut variables = HashMap::new();
    let mut listed = Vec::new();
    for block in lines.split(|(_, line)| line.starts_with("###")) {
        if let Some(request) = request(block, folder, &mut variables)? {
            listed.push(request);
        }
    }
    Ok(listed)
}

/// The request between two `###`; `None` where there are only comments and variables.
fn request<'a>(
    block: &[Line<'a>],
    folder: &Path,
    variables: &mut HashMap<&'a str, String>,
) -> Result<Option<(usize, Listed)>, Wrong> {
    let mut lines = block.iter().copied().peekable();
    let (mut weight, mut statuses) = (1, Vec::new());
    let start = loop {
        let Some((number, line)) = lines.next() else {
            return Ok(None);
        };
        let text = line.trim();
        if let Some(definition) = text.strip_prefix('@') {
            let Some((name, value)) = definition.split_once('=') else {
                return Err(Wrong::new(
                    number,
                    1,
                    "a variable has no value: write @name = value",
                ));
            };
            let value = replaced((number, value.trim()), variables)?;
            variables.insert(name.trim(), value);
        } else if let Some(comment) = comment(text) {
            if let Some(text) = comment.strip_prefix("@weight ") {
                weight = text.trim().parse().map_err(|_| {
                    Wrong::new(
                        number,
                        1,
                        format!("{text:?} is not a weight: write # @weight 3"),
                    )
                })?;
            } else if let Some(text) = comment.strip_prefix("@expect ") {
                statuses =
                    status_ranges(text.trim()).map_err(|text| Wrong::new(number, 1, text))?;
            }
        } else if !text.is_empty() {
            break (number, text);
        }
    };

    let number = start.0;
    let mut target = replaced(start, variables)?;
    // A query goes on in lines of its own.
    while let Some(line) = lines.next_if(|(_, line)| {
        line.starts_with([' ', '\t']) && line.trim_start().starts_with(['?', '&'])
    }) {
        target.push_str(&replaced((line.0, line.1.trim()), variables)?);
    }
    let (method, url) = start_line(&target);
    let mut listed = Listed::new("", url);
    listed.method = method.map(str::to_owned);
    (listed.weight, listed.statuses) = (weight, statuses);
    for line in lines.by_ref() {
        let text = line.1.trim();
        if text.is_empty() {
            break;
        }
        if comment(text).is_some() {
            continue;
        }
        let text = replaced((line.0, text), variables)?;
        let Some((name, value)) = text.split_once(':') else {
            return Err(Wrong::new(
                line.0,
                1,
                format!(
                    "{text:?} is not a header: write Name: value, and an empty line before the body"
                ),
            ));
        };
        let (name, value) = (name.trim_end(), value.trim());
        if !is_of_the_connection(name) || name.eq_ignore_ascii_case("host") {
            listed.fields.push((name.into(), value.into()));
        }
    }
    listed.body = Some(body(lines, folder, variables)?);
    if let Some(base) = taken_host(&mut listed) {
        listed.url.insert_str(0, &base);
    }
    Ok(Some((number, listed)))
}

/// The rest of a comment.
fn comment(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("//").or(text.strip_prefix('#'))?;
    Some(rest.trim_start())
}

/// Method and URL of a request's first line, without its version.
fn start_line(text: &str) -> (Option<&str>, &str) {
    let text = text.trim();
    let text = match text.rsplit_once(' ') {
        Some((rest, version)) if version.starts_with("HTTP/") => rest.trim_end(),
        _ => text,
    };
    match text.split_once(' ') {
        Some((method, url)) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            (Some(method), url.trim())
        }
        _ => (None, text),
    }
}

/// Where a path alone is requested and a `host` field names where: the URL's part before it.
fn taken_host(listed: &mut Listed) -> Option<String> {
    let at = listed
        .fields
        .iter()
        .position(|(name, _)| name.eq_ignore_ascii_case("host"))?;
    if !listed.url.starts_with('/') {
        return None;
    }
    let (_, host) = listed.fields.remove(at);
    Some(format!("http://{host}"))
}

fn body<'a>(
    lines: impl Iterator<Item = Line<'a>>,
    folder: &Path,
    variables: &HashMap<&str, String>,
) -> Result<Vec<u8>, Wrong> {
    let mut body = Vec::new();
    for (number, line) in lines {
        if line.starts_with("> ") {
            return Err(Wrong::new(
                number,
                1,
                "scripts for responses are not run: leave this line out",
            ));
        }
        match line.strip_prefix("< ") {
            Some(file) => {
                let file = folder.join(file.trim());
                let contents = super::named(folder, &file).map_err(|error| {
                    Wrong::new(
                        number,
                        3,
                        format!("cannot read {}: {error}", file.display()),
                    )
                })?;
                body.extend(contents);
            }
            None => body.extend(replaced((number, line), variables)?.into_bytes()),
        }
        body.push(b'\n');
    }
    // The lines before the next ### are there to look at.
    let end = body.iter().rposition(|byte| !byte.is_ascii_whitespace());
    body.truncate(end.map_or(0, |end| end + 1));
    Ok(body)
}

/// The line with the values of its variables.
fn replaced((number, line): Line<'_>, variables: &HashMap<&str, String>) -> Result<String, Wrong> {
    let (mut text, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else {
            break;
        };
        text.push_str(before);
        let Some(value) = variables.get(name.trim()) else {
            let column = line[..line.len() - after.len()].chars().count() + 1;
            let known = match name.trim().strip_prefix('$') {
                Some(_) => "write {seq}, {rand:1-1000}, {uuid} or {csv:FILE:COLUMN}".to_owned(),
                None => format!("write @{} = value above", name.trim()),
            };
            return Err(Wrong::new(
                number,
                column,
                format!("the variable {:?} is not known: {known}", name.trim()),
            ));
        };
        text.push_str(value);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(usize, Listed)> {
        parse(text, Path::new("")).unwrap()
    }

    #[test]
    fn requests_are_what_stands_between_the_marks() {
        let listed = parsed(
            "# a comment\n@host = http://a:81\n@id=7\n\n### one\n{{host}}/x/{{ id }}\n    ?a=1\n    &b={seq}\n\
             Accept: text/plain\n// another\nConnection: close\n\n###\n# @weight 3\n# @expect 201\n\
             POST {{host}}/y HTTP/1.1\nContent-Type: application/json\n\n{\"id\": {{id}},\n \"n\": {}}\n\n\n### two\n",
        );
        assert_eq!(listed.len(), 2);
        let (line, first) = &listed[0];
        assert_eq!(
            (*line, first.url.as_str()),
            (6, "http://a:81/x/7?a=1&b={seq}")
        );
        assert_eq!(first.method, None);
        assert_eq!(
            first.fields,
            [("Accept".to_owned(), "text/plain".to_owned())]
        );
        assert_eq!(first.body.as_deref(), Some(&b""[..]));
        let (line, second) = &listed[1];
        assert_eq!((*line, second.url.as_str()), (16, "http://a:81/y"));
        assert_eq!(second.method.as_deref(), Some("POST"));
        assert_eq!(
            second.body.as_deref(),
            Some(&b"{\"id\": 7,\n \"n\": {}}"[..])
        );
        assert_eq!((second.weight, &*second.statuses), (3, &[(201, 201)][..]));
    }

    #[test]
    fn a_path_and_a_host_are_a_url() {
        let listed = parsed("GET /x\nHost: a:81\n");
        assert_eq!(listed[0].1.url, "http://a:81/x");
        assert!(listed[0].1.fields.is_empty());
        let listed = parsed("GET http://b/x\nHost: a\n");
        assert_eq!(listed[0].1.fields, [("Host".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn a_body_comes_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.bin"), b"\0\xff").unwrap();
        let listed = parse("PUT http://a/\n\n< b.bin\n", folder.path()).unwrap();
        assert_eq!(listed[0].1.body.as_deref(), Some(&b"\0\xff"[..]));
        let wrong = parse("PUT http://a/\n\n< none\n", folder.path()).unwrap_err();
        assert_eq!((wrong.line, wrong.column), (3, 3));
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_column() {
        for (text, line, column, told) in [
            ("@a\n", 1, 1, "@name = value"),
            ("GET http://a/{{b}}\n", 1, 16, "\"b\" is not known"),
            ("GET http://a/\nX: {{$guid}}\n", 2, 6, "{uuid}"),
            ("GET http://a/\nnonsense\n", 2, 1, "not a header"),
            ("GET http://a/\n\n\n> {% test %}\n", 4, 1, "scripts"),
            ("# @weight x\nGET http://a/\n", 1, 1, "not a weight"),
            ("# @expect 2xx\nGET http://a/\n", 1, 1, "2xx"),
        ] {
            let wrong = parse(text, Path::new("")).unwrap_err();
            assert_eq!(
                (wrong.line, wrong.column),
                (line, column),
                "{text}: {wrong:?}"
            );
            assert!(wrong.text.contains(told), "{text}: {wrong:?}");
        }
    }
}
