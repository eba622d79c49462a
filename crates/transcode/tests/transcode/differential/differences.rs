//! Where we and vanguard differ on purpose, with what the specification says.

use super::cases::Case;

/// A case, our status, our request in JSON where the status is 200, and what decides.
pub(crate) type Difference = (Case, u16, &'static str, &'static str);

const SINGLE: &str = "* matches a single URL path segment";
const REST: &str = "** matches zero or more URL path segments";
const DECODED: &str = "on the server side all of a single-segment variable is percent-decoded";
const KEPT: &str = "in a multi-segment variable %2F and %2f are left unchanged";
const VERB: &str = "Template = \"/\" Segments [ Verb ]: a verb is what a template ends with";
const QUERY: &str = "URL query parameters are mapped to fields of neither the path nor the body";
const REPEATED: &str = "a parameter of a repeated type can be repeated in the URL";
const PRIMITIVE: &str = "query parameters have a primitive type, and null is not a value of one";
const TEXT: &str = "a string field holds the text, and that has to be UTF-8";

const VALUE: &str = "JSON text is one value (RFC 8259, section 2), and nothing is none";

const ONEOF: &str =
    "at most one field of a oneof is set, and query parameters are for what the path does not bind";

pub(crate) const DIFFERENT: &[Difference] = &[
    (
        ("GET", "/v1/single/a%2Fb", ""),
        200,
        r#"{"text":"a/b"}"#,
        DECODED,
    ),
    (
        ("GET", "/v1/single/%2541", ""),
        200,
        r#"{"text":"%41"}"#,
        DECODED,
    ),
    (
        ("GET", "/v1/single/a:b", ""),
        200,
        r#"{"text":"a:b"}"#,
        SINGLE,
    ),
    (
        ("GET", "/v1/single/a:", ""),
        200,
        r#"{"text":"a:"}"#,
        SINGLE,
    ),
    (
        ("GET", "/v1/single/a%3Ago", ""),
        200,
        r#"{"text":"a:go"}"#,
        SINGLE,
    ),
    (
        ("GET", "/v1/shelves/1/books/a%2Fb", ""),
        200,
        r#"{"text":"shelves/1/books/a%2Fb"}"#,
        KEPT,
    ),
    (
        ("GET", "/v1/shelves/%2f/books/%3F", ""),
        200,
        r#"{"text":"shelves/%2f/books/?"}"#,
        KEPT,
    ),
    (
        ("GET", "/v1/rest/a%2Fb/c", ""),
        200,
        r#"{"text":"a%2Fb/c"}"#,
        KEPT,
    ),
    (("GET", "/v1/rest", ""), 200, "{}", REST),
    (("GET", "/v1/rest:go", ""), 200, "{}", REST),
    (("GET", "/v1/files", ""), 200, r#"{"text":"files"}"#, REST),
    (("GET", "/v1/sky", ""), 200, "{}", REST),
    (
        ("POST", "/v1/verbs/a:b:go", ""),
        200,
        r#"{"text":"verbs/a:b"}"#,
        VERB,
    ),
    (
        ("GET", "/v1/verbs/a:stop", ""),
        200,
        r#"{"text":"verbs/a:stop"}"#,
        VERB,
    ),
    (
        ("DELETE", "/v1/pick/fixed/other", ""),
        200,
        r#"{"text":"fixed"}"#,
        SINGLE,
    ),
    (("GET", "/v1/single/a?text=b", ""), 400, "", QUERY),
    (("POST", "/v1/whole?int32=5", "{}"), 400, "", QUERY),
    (
        ("PATCH", "/v1/inners/5?inner.number=5", "{}"),
        400,
        "",
        QUERY,
    ),
    (
        (
            "GET",
            "/v1/query?timestamps=1970-01-01T00:00:01Z&timestamps=1970-01-01T00:00:02Z",
            "",
        ),
        200,
        r#"{"timestamps":["1970-01-01T00:00:01Z","1970-01-01T00:00:02Z"]}"#,
        REPEATED,
    ),
    (("GET", "/v1/query?int32=null", ""), 400, "", PRIMITIVE),
    (("GET", "/v1/query?bool=null", ""), 400, "", PRIMITIVE),
    (
        ("GET", "/v1/query?wrappedString=%22a%22", ""),
        200,
        r#"{"wrappedString":"\"a\""}"#,
        TEXT,
    ),
    (("GET", "/v1/query?text=%zz", ""), 400, "", TEXT),
    (
        ("GET", "/v1/query?text=a;b", ""),
        200,
        r#"{"text":"a;b"}"#,
        TEXT,
    ),
    (("GET", "/v1/query?text=%FF", ""), 400, "", TEXT),
    (("GET", "/v1/single/%FF", ""), 400, "", TEXT),
    (("POST", "/v1/body/text", ""), 400, "", VALUE),
    (("GET", "/v1/one/x?right=5", ""), 400, "", ONEOF),
];
