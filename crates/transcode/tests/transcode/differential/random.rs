//! Requests by chance, away from the differences that are known.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// Method, target, content.
pub(crate) type Random = (String, String, String);

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9._~-]{1,6}",
        1 => "(%20|%3F|%23|%26|%2B|%C3%BC|\\+|=|@|\\$){1,3}",
        1 => prop_oneof![Just("fixed"), Just("tail"), Just("end"), Just("books")].prop_map(String::from),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let starts = [
        "single", "nested", "shelves", "rest", "files", "stars", "sky", "verbs", "pick", "head",
        "whatever", "old", "typed", "query",
    ];
    (
        prop::sample::select(starts.to_vec()),
        prop::collection::vec(segment(), 1..5),
    )
        .prop_map(|(start, segments)| format!("/v1/{start}/{}", segments.join("/")))
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<i16>().prop_map(|number| number.to_string()),
        "-?[0-9]{1,3}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        "[-+0-9.eExX ]{0,5}",
        prop_oneof![
            Just("NaN"),
            Just("Infinity"),
            Just("-Infinity"),
            Just("true")
        ]
        .prop_map(String::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9 ._~/:-]{0,8}",
        "[ -!#-~ü€]{0,6}",
        "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]0[0-9]:30)",
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,9})?s",
        "([A-Za-z0-9+/]{4}){1,2}",
        "[A-Za-z0-9_-]{2,7}",
        prop_oneof![Just("ROUND"), Just("SQUARE"), Just("false"), Just("a,bC.d")]
            .prop_map(String::from),
    ]
}

/// Fields that are not repeated, and fields that are. Wrappers of numbers and field masks are left to
/// the tables: vanguard reads them by other rules than numbers and JSON.
const SINGULAR: &[&str] = &[
    "text",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "fixed64",
    "float",
    "double",
    "bool",
    "bytes",
    "kind",
    "maybe",
    "right",
    "inner.text",
    "inner.number",
    "timestamp",
    "duration",
    "wrappedBool",
    "inner.twoWords",
];
const REPEATED: &[&str] = &["texts", "numbers", "kinds", "inner.texts"];

fn query() -> impl Strategy<Value = String> {
    let name = prop::sample::select([SINGULAR, REPEATED].concat());
    let value = prop_oneof![number(), text()];
    prop::collection::vec((name, value), 0..4).prop_map(|pairs| {
        let encoded = pairs.iter().map(|(name, value)| {
            let value =
                percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
            format!("{name}={value}")
        });
        encoded.collect::<Vec<_>>().join("&")
    })
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from),
        (-1000..1000_i32).prop_map(|n| (f64::from(2 * n + 1) / 8.0).into()),
        any::<i32>().prop_map(|number| number.to_string().into()),
        text().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let top = SINGULAR.iter().chain(REPEATED);
        let names: Vec<&str> = top.copied().filter(|name| !name.contains('.')).collect();
        let names = [
            names,
            vec!["inner", "inners", "structure", "value", "labels"],
        ]
        .concat();
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::btree_map(prop::sample::select(names), inner, 0..2)
                .prop_map(|map| serde_json::to_value(map).unwrap()),
        ]
    })
}

fn request() -> impl Strategy<Value = Random> {
    let content = || {
        prop::collection::btree_map(
            prop::sample::select(
                [
                    SINGULAR,
                    REPEATED,
                    &["inner", "inners", "structure", "value", "labels"],
                ]
                .concat(),
            ),
            json(),
            0..3,
        )
        .prop_map(|mut map| {
            map.retain(|name, _| !name.contains('.'));
            serde_json::to_string(&map).unwrap()
        })
    };
    let owned =
        |method: &str, target: String, content: String| (method.to_owned(), target, content);
    let bodies = [
        "text",
        "texts",
        "labels",
        "kind",
        "timestamp",
        "inners",
        "int64",
    ];
    prop_oneof![
        path().prop_map(move |path| owned("GET", path, String::new())),
        query().prop_map(move |query| owned("GET", format!("/v1/query?{query}"), String::new())),
        content().prop_map(move |content| owned("POST", "/v1/whole".to_owned(), content)),
        content().prop_map(move |content| owned("PATCH", "/v1/inners/5".to_owned(), content)),
        (prop::sample::select(bodies.to_vec()), json()).prop_map(move |(field, content)| {
            owned("POST", format!("/v1/body/{field}"), content.to_string())
        }),
    ]
}

/// The same requests every time.
pub(crate) fn requests(count: usize, seed: u8) -> Vec<Random> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = request();
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}
