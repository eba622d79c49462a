//! Secrets in what was typed: by the names that they have in fields, URLs, bodies and command lines.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// A name that contains one of these is that of a secret …
const PARTS: [&str; 14] = [
    "auth",
    "bearer",
    "cookie",
    "credential",
    "jwt",
    "key",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "session",
    "signature",
];
/// … and so is one that is one of these.
const WHOLE: [&str; 6] = ["otp", "pass", "pin", "pw", "sid", "sig"];
/// Words that contain one of the parts by chance.
const HARMLESS: [&str; 6] = [
    "authority",
    "author",
    "keyword",
    "keyboard",
    "keynote",
    "monkey",
];
/// Flags of programs that take the path of a key.
const FILES: [&str; 6] = [
    "--key",
    "--tls-key",
    "--cluster-tls-key",
    "--client-key",
    "--private-key",
    "--ssl-key",
];
/// What stands before a secret in the value of a field.
const SCHEMES: [&str; 5] = ["apikey", "basic", "bearer", "digest", "token"];

/// Whether the value of a field, a parameter, a member or a variable of this name is a secret.
pub fn is_secret(name: &str) -> bool {
    let mut name = name.trim().to_ascii_lowercase();
    // `authorization` is one, and `author` is not.
    name = name.replace("authoriz", "auth").replace("authoris", "auth");
    for word in HARMLESS {
        name = name.replace(word, "");
    }
    // Of language models: `max_tokens` is a number.
    let is_count = name.starts_with("max") && name.ends_with("tokens");
    WHOLE.contains(&&*name)
        || PARTS.iter().any(|part| name.contains(part))
        || (name.contains("token") && !is_count)
}

/// A field as it was typed, `Name: value`.
pub fn field(text: &str) -> Cow<'_, str> {
    match text.split_once(':') {
        Some((name, value)) if is_secret(name) && !is_reference(value) => {
            format!("{}: {HIDDEN}", name.trim_end()).into()
        }
        _ => url(text),
    }
}

/// A URL, or a message with URLs in it: without user and password, and without values of parameters that are secret.
pub fn url(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '=']) {
        return text.into();
    }
    let without_user = URL.replace_all(text, |found: &Captures<'_>| {
        let (scheme, rest) = (&found[1], &found[2]);
        format!("{scheme}{}", without_user(rest))
    });
    let bare = PARAMETER.replace_all(&without_user, |found: &Captures<'_>| {
        hidden_if(found, is_secret(&found[2]), &found[3], |found| {
            format!("{}{}={HIDDEN}", &found[1], &found[2])
        })
    });
    bare.into_owned().into()
}

/// What follows the scheme of a URL, with something else in place of who asks.
fn without_user(rest: &str) -> String {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // Where the authority cannot be one, a slash of the password was not escaped.
    let at = match rest[..end].rfind('@') {
        None if !has_port(&rest[..end]) => rest.rfind('@'),
        at => at,
    };
    at.map_or_else(
        || rest.to_owned(),
        |at| format!("{HIDDEN}@{}", &rest[at + 1..]),
    )
}

/// A word of a command line, or what a shell is given: fields, URLs, bodies as JSON or as a form, variables and flags in
/// it have no secrets.
pub fn command(text: &str) -> Cow<'_, str> {
    if let Some(json) = json(text) {
        return json.into();
    }
    let mut text = url(text).into_owned();
    for (pattern, hide) in RULES.iter() {
        text = pattern.replace_all(&text, *hide).into_owned();
    }
    text.into()
}

/// JSON without secrets, where there are any; `None` for other text.
fn json(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    Some(if hide_members(&mut value) {
        value.to_string()
    } else {
        text.to_owned()
    })
}

/// Whether something was hidden.
fn hide_members(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => members.iter_mut().fold(false, |hid, (name, value)| {
            if is_secret(name) && !value.is_null() {
                *value = HIDDEN.into();
                return true;
            }
            hide_members(value) || hid
        }),
        // Each of them, also behind one in which something was hidden.
        Value::Array(items) => {
            items
                .iter_mut()
                .filter_map(|item| hide_members(item).then_some(()))
                .count()
                > 0
        }
        _ => false,
    }
}

/// Whether a value only says where the secret is: `Bearer ${TOKEN}`.
fn is_reference(value: &str) -> bool {
    let value = value.trim();
    if value.is_empty() || value == HIDDEN {
        return true;
    }
    let rest = REFERENCE.replace_all(value, "").trim().to_ascii_lowercase();
    rest != value.to_ascii_lowercase() && (rest.is_empty() || SCHEMES.contains(&&*rest))
}

/// Whether what follows the last colon of an authority may be a port.
fn has_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    authority.ends_with(']') || port.chars().all(|c| c.is_ascii_digit())
}

fn hidden_if(
    found: &Captures<'_>,
    is_secret: bool,
    value: &str,
    hide: impl Fn(&Captures<'_>) -> String,
) -> String {
    if is_secret && !is_reference(value.trim_matches(['"', '\''])) {
        hide(found)
    } else {
        found[0].to_owned()
    }
}

/// Replaces what a pattern has found.
type Hide = fn(&Captures<'_>) -> String;

#[expect(
    clippy::unwrap_used,
    reason = "the patterns are constants, and a test uses each"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

static URL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'<>]+)"#));
static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"([?&;#])([^\s=&;#"'<>]+)=([^\s&;#"'<>]*)"#));
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"));

/// Patterns of what a command line has besides URLs. A value in quotes ends with them.
static RULES: LazyLock<[(Regex, Hide); 6]> = LazyLock::new(|| {
    [
        // "name": "value", where the whole is no JSON.
        (
            pattern(
                r#"(\\?["']([A-Za-z0-9_.-]+)\\?["']\s*:\s*)(\\?"(?:[^"\\]|\\.)*"|[^\s,}\]"]+)"#,
            ),
            |found| {
                hidden_if(found, is_secret(&found[2]), &found[3], |found| {
                    format!("{}\"{HIDDEN}\"", &found[1])
                })
            },
        ),
        // Name: value, up to the end of the quotes or of the line.
        (
            pattern(r#"(^|["'\s=])([A-Za-z0-9_-]+)(:[ \t]*)([^"'\r\n]+)"#),
            |found| {
                let value = &found[4];
                let is_field =
                    is_secret(&found[2]) && !value.starts_with("//") && !is_address(value);
                hidden_if(found, is_field, value, |found| {
                    format!("{}{}: {HIDDEN}", &found[1], &found[2])
                })
            },
        ),
        // NAME=value of a variable, a flag or a form.
        (
            pattern(r#"(^|["'\s&;,(])([A-Za-z0-9_.\[\]-]+)=("[^"]*"|'[^']*'|[^\s"'&;|]+)"#),
            |found| {
                let is_value = is_secret(&found[2]) && !FILES.contains(&&found[2]);
                hidden_if(found, is_value, &found[3], |found| {
                    format!("{}{}={HIDDEN}", &found[1], &found[2])
                })
            },
        ),
        // --name value.
        (
            pattern(r#"(--[A-Za-z0-9_-]+)([ \t]+)("[^"]*"|'[^']*'|[^\s"'&;|-][^\s"'&;|]*)"#),
            |found| {
                let is_value = is_secret(&found[1]) && !FILES.contains(&&found[1]);
                hidden_if(found, is_value, &found[3], |found| {
                    format!("{}{}{HIDDEN}", &found[1], &found[2])
                })
            },
        ),
        // -u name:password, as curl has it.
        (
            pattern(r#"(^|\s)(-u|--user|--proxy-user|-U)([ =]*)(["']?)[^\s"':]+:[^\s"']+"#),
            |found| {
                format!(
                    "{}{}{}{}{HIDDEN}",
                    &found[1], &found[2], &found[3], &found[4]
                )
            },
        ),
        // Wherever it stands.
        (
            pattern(r"(?i)\b(bearer|basic)([ \t]+)([A-Za-z0-9._~+/-]{6,}=*)"),
            |found| format!("{}{}{HIDDEN}", &found[1], &found[2]),
        ),
    ]
});

/// Whether it is the port that follows a host: `auth:443`, `key-server:80/path`.
fn is_address(value: &str) -> bool {
    let digits = value.chars().take_while(char::is_ascii_digit).count();
    (1..=5).contains(&digits)
        && value[digits..]
            .chars()
            .next()
            .is_none_or(|c| ":/,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_secret() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "x-api-key",
            "X-Auth-Token",
            "Set-Cookie",
            "access_token",
            "API_KEY",
            "client_secret",
            "Password",
            "X-Amz-Signature",
            "sig",
            "oauth",
            "sessionId",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "author",
            "authors",
            ":authority",
            "max_tokens",
            "max_completion_tokens",
            "keyword",
            "accept",
            "x-trace",
            "keep-alive",
            "design",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn fields_hide_their_values_and_keep_references() {
        assert_eq!(field("AUTHORIZATION : Bearer x"), "AUTHORIZATION: [hidden]");
        assert_eq!(field("Cookie:a=b; c=d"), "Cookie: [hidden]");
        for kept in [
            "X-Trace: 7",
            "authorization: Bearer ${TOKEN}",
            "x-api-key: ${A}${B}",
            "no colon",
        ] {
            assert_eq!(field(kept), kept);
        }
        assert_eq!(field("x-api-key: ${A}plain"), "x-api-key: [hidden]");
        assert_eq!(
            field("referer: https://u:p@a/"),
            "referer: https://[hidden]@a/"
        );
    }

    #[test]
    fn urls_have_no_user_and_no_secret_parameters() {
        for (typed, shown) in [
            ("https://u:p@a:1/x?y=1", "https://[hidden]@a:1/x?y=1"),
            ("https://token@a/", "https://[hidden]@a/"),
            // A password whose slash is not escaped is no port.
            ("http://u:p/w@a/x", "http://[hidden]@a/x"),
            ("http://a:80/@me?x=@", "http://a:80/@me?x=@"),
            ("http://a/@me", "http://a/@me"),
            (
                "/x?a=1&api_key=s&b=2#token=s",
                "/x?a=1&api_key=[hidden]&b=2#token=[hidden]",
            ),
            ("/x?token=${T}&sig=", "/x?token=${T}&sig="),
            (
                "cannot reach http://u:p@a/ and 'ws://b/?key=s'",
                "cannot reach http://[hidden]@a/ and 'ws://b/?key=[hidden]'",
            ),
            (
                "https://u:p@a:1/x?to=me@b",
                "https://[hidden]@a:1/x?to=me@b",
            ),
            ("a=b", "a=b"),
        ] {
            assert_eq!(url(typed), shown);
        }
    }

    #[test]
    fn command_lines_have_no_secrets() {
        for (typed, shown) in [
            ("x-api-key: s t", "x-api-key: [hidden]"),
            ("-Hcookie: s", "-Hcookie: [hidden]"),
            ("--header=x-token:s", "--header=x-token: [hidden]"),
            (
                r#"{"a": 1, "password": "s"}"#,
                r#"{"a":1,"password":"[hidden]"}"#,
            ),
            (r#"[{"token": {"a": 1}}]"#, r#"[{"token":"[hidden]"}]"#),
            (r#"{"a":  1}"#, r#"{"a":  1}"#),
            (
                r#"{"token": "s", {seq}}"#,
                r#"{"token": "[hidden]", {seq}}"#,
            ),
            ("user=me&password=s&x=1", "user=me&password=[hidden]&x=1"),
            (
                "API_TOKEN=s ./server --port {port}",
                "API_TOKEN=[hidden] ./server --port {port}",
            ),
            ("API_TOKEN='s t' ./server", "API_TOKEN=[hidden] ./server"),
            (
                "./server --api-key s --key k.pem",
                "./server --api-key [hidden] --key k.pem",
            ),
            ("--key=k.pem", "--key=k.pem"),
            ("curl -u me:s {url}", "curl -u [hidden] {url}"),
            (
                "curl -H 'authorization: Bearer s' -H \"x: y\" 'http://u:s@a/?key=s'",
                "curl -H 'authorization: [hidden]' -H \"x: y\" 'http://[hidden]@a/?key=[hidden]'",
            ),
            ("send 'Bearer 0123456789'", "send 'Bearer [hidden]'"),
            (
                "authorization: Bearer ${TOKEN}",
                "authorization: Bearer ${TOKEN}",
            ),
            ("auth:443", "auth:443"),
            ("auth:443:127.0.0.1", "auth:443:127.0.0.1"),
            ("https://auth:8443/x", "https://auth:8443/x"),
            (
                "./bench --threads 4 --author me",
                "./bench --threads 4 --author me",
            ),
        ] {
            assert_eq!(command(typed), shown);
        }
    }
}
