//! The table of `docs/transcoding.md`: what http.proto says, and what three implementations make of it.
//!
//! A test compares the page with the table. With `TRANSCODE_TABLE=write` it writes it instead.

use std::{env, fs, path::Path};

use trilane_transcode::Router;

use super::{Outcome, SERVICE, cases::Case, ours, peer::Peer, theirs};

const BEGIN: &str = "<!-- table of rules: made by `TRANSCODE_TABLE=write cargo test -p trilane-transcode table` -->";
const END: &str = "<!-- end of the table of rules -->";

/// A sentence of http.proto, or of what it builds on, and the requests that it decides.
const SECTIONS: &[(&str, &[Case])] = &[
    (
        "The syntax `*` matches a single URL path segment.",
        &[
            ("GET", "/v1/single/abc", ""),
            ("GET", "/v1/single/", ""),
            ("GET", "/v1/single/a/b", ""),
            ("GET", "/v1/single/a:b", ""),
        ],
    ),
    (
        "The syntax `**` matches zero or more URL path segments, which must be the last part of the URL path \
         except the `Verb`.",
        &[
            ("GET", "/v1/rest/a/b", ""),
            ("GET", "/v1/rest", ""),
            ("GET", "/v1/rest/a/b:go", ""),
            ("GET", "/v1/rest:go", ""),
        ],
    ),
    (
        "`Template = \"/\" Segments [ Verb ]`",
        &[
            ("POST", "/v1/verbs/1:go", ""),
            ("POST", "/v1/verbs/a:b:go", ""),
            ("GET", "/v1/verbs/1:go", ""),
            ("GET", "/v1/verbs/a:stop", ""),
        ],
    ),
    (
        "If a variable contains exactly one path segment … all characters except `[-_.~0-9a-zA-Z]` are \
         percent-encoded. The server side does the reverse decoding.",
        &[
            ("GET", "/v1/single/a%20b", ""),
            ("GET", "/v1/single/a%2Fb", ""),
            ("GET", "/v1/single/a%3Ago", ""),
            ("GET", "/v1/single/%2541", ""),
            ("GET", "/v1/single/%zz", ""),
            ("GET", "/v1/single/%FF", ""),
        ],
    ),
    (
        "If a variable contains multiple path segments … the server side does the reverse decoding, except \
         \"%2F\" and \"%2f\" are left unchanged.",
        &[
            ("GET", "/v1/shelves/1/books/a%2Fb", ""),
            ("GET", "/v1/shelves/%2f/books/%3F", ""),
            ("GET", "/v1/rest/a%2Fb/c%20d", ""),
        ],
    ),
    (
        "The variable … must not refer to any repeated field, but may refer to fields of other messages and of \
         primitive types.",
        &[
            ("GET", "/v1/nested/abc/7", ""),
            ("GET", "/v1/nested/abc/seven", ""),
            (
                "GET",
                "/v1/typed/-5/true/SQUARE/aGk=/2026-01-02T03:04:05Z/12",
                "",
            ),
        ],
    ),
    (
        "Any fields in the request message which are not bound by the path template automatically become HTTP \
         query parameters if there is no HTTP request body.",
        &[
            ("GET", "/v1/query?text=a&int32=5", ""),
            ("GET", "/v1/query?inner.twoWords=a", ""),
            ("GET", "/v1/query?inner.two_words=a", ""),
            ("GET", "/v1/single/a?text=b", ""),
            ("GET", "/v1/query?unknown=a", ""),
            ("GET", "/v1/query?text=a;b", ""),
            ("GET", "/v1/query", "{\"text\":\"a\"}"),
        ],
    ),
    (
        "Fields which are mapped to URL query parameters must have a primitive type or a repeated primitive type \
         or a non-repeated message type.",
        &[
            ("GET", "/v1/query?texts=a&texts=b", ""),
            ("GET", "/v1/query?numbers=3,1", ""),
            ("GET", "/v1/query?kind=ROUND", ""),
            ("GET", "/v1/query?kind=2", ""),
            ("GET", "/v1/query?kind=77", ""),
            ("GET", "/v1/query?bool=1", ""),
            ("GET", "/v1/query?int32=null", ""),
            ("GET", "/v1/query?bytes=-_-_", ""),
            ("GET", "/v1/query?double=NaN", ""),
            ("GET", "/v1/query?labels[a]=b", ""),
            ("GET", "/v1/query?inners=a", ""),
            ("GET", "/v1/query?timestamp=2026-01-02T03:04:05Z", ""),
            ("GET", "/v1/query?fieldMask=text,inner.twoWords", ""),
            ("GET", "/v1/query?wrappedString=%22a%22", ""),
        ],
    ),
    (
        "Using `*` in the body … every field not bound by the path template should be mapped to the request body \
         … it is not possible to have HTTP parameters.",
        &[
            ("POST", "/v1/whole", "{\"text\":\"a\",\"int32\":5}"),
            ("POST", "/v1/whole", ""),
            ("POST", "/v1/whole?int32=5", "{}"),
            ("PUT", "/v1/whole/path", "{\"text\":\"content\"}"),
            ("POST", "/v1/whole", "{\"unknown\":5}"),
        ],
    ),
    (
        "`body`: the name of the request field whose value is mapped to the HTTP request body.",
        &[
            (
                "PATCH",
                "/v1/inners/5?fieldMask=inner.number",
                "{\"number\":7}",
            ),
            ("PATCH", "/v1/inners/5?inner.number=5", "{}"),
            ("PATCH", "/v1/inners/5", "{\"text\":\"content\"}"),
            ("POST", "/v1/body/text", "\"abc\""),
            ("POST", "/v1/body/texts", "[\"a\",\"b\"]"),
        ],
    ),
    (
        "`additional_bindings`: additional HTTP bindings for the selector.",
        &[
            ("GET", "/v1/old/books/2", ""),
            ("POST", "/v1/shelves/1/books/2", "{\"int32\":1}"),
        ],
    ),
    (
        "`custom`: … the wild-card rule is useful for services that provide content to Web (HTML) clients.",
        &[
            ("HEAD", "/v1/head/x", ""),
            ("PUT", "/v1/whatever/x", ""),
            ("DELETE", "/v1/single/x", ""),
        ],
    ),
    (
        "Protocol Buffers: at most one field of a oneof can be set at the same time.",
        &[
            ("GET", "/v1/one/x?right=5", ""),
            ("POST", "/v1/whole", "{\"left\":\"a\",\"right\":5}"),
        ],
    ),
    (
        "ProtoJSON: a parser takes numbers and strings for numbers, and no duplicate names.",
        &[
            ("POST", "/v1/whole", "{\"int32\":\"1e2\"}"),
            ("POST", "/v1/whole", "{\"float\":3.4028235e38}"),
            ("POST", "/v1/whole", "{\"any\":{}}"),
            ("POST", "/v1/whole", "{\"text\":\"a\",\"text\":\"b\"}"),
            (
                "POST",
                "/v1/whole",
                "{\"timestamp\":\"2016-12-31T23:59:60Z\"}",
            ),
        ],
    ),
];

/// What a cell says of an outcome.
fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused(status, _) => status.to_string(),
        Outcome::Call { path, readable, .. } => {
            let method = path.rsplit('/').next().unwrap();
            format!("{method} `{}`", readable.replace('|', "\\|"))
        }
    }
}

fn version(module: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/others/go.mod");
    let text = fs::read_to_string(file).unwrap();
    let line = text
        .lines()
        .find(|line| line.trim().starts_with(module))
        .unwrap();
    line.trim()[module.len()..].trim().to_owned()
}

fn render(vanguard: &Peer, gateway: &Peer) -> String {
    let pool = crate::support::bindings();
    let router = Router::new(&pool).unwrap();
    let mut lines = vec![
        BEGIN.to_owned(),
        String::new(),
        format!(
            "| request | Trilane | vanguard {} | grpc-gateway {} |",
            version("connectrpc.com/vanguard"),
            version("github.com/grpc-ecosystem/grpc-gateway/v2")
        ),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    for (sentence, cases) in SECTIONS {
        lines.push(format!("| *{sentence}* | | | |"));
        for &case in *cases {
            let (method, target, content) = case;
            let own = cell(&ours(&router, case));
            let others = [vanguard, gateway].map(|peer| {
                let other = cell(&theirs(peer, &pool, case));
                if other == own { "=".to_owned() } else { other }
            });
            let shown = match content {
                "" => format!("`{method} {target}`"),
                content => format!("`{method} {target}` `{content}`"),
            };
            let [vanguard, gateway] = others;
            lines.push(format!("| {shown} | {own} | {vanguard} | {gateway} |"));
        }
    }
    lines.push(String::new());
    lines.push(END.to_owned());
    lines.join("\n")
}

#[test]
fn the_table_of_rules_is_that_of_the_page() {
    let descriptors = crate::support::compile("bindings.proto", "");
    let Some(vanguard) = Peer::start(&descriptors, SERVICE) else {
        return;
    };
    let gateway = Peer::start_by("grpc-gateway", &descriptors, SERVICE).unwrap();
    let table = render(&vanguard, &gateway);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/transcoding.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the page has the table's begin");
    let (_, after) = rest.split_once(END).expect("the page has the table's end");
    let wanted = [before, &table, after].concat();
    if env::var("TRANSCODE_TABLE").as_deref() == Ok("write") {
        fs::write(&page, wanted).unwrap();
        return;
    }
    assert!(
        wanted == text,
        "docs/transcoding.md has another table of rules: type {}\n{table}",
        BEGIN.split('`').nth(1).unwrap()
    );
}
