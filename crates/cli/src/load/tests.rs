//! What is wrong with a command line, and how it is told: a line that says what to type, before anything is sent.

use std::fs;
use std::path::Path;

use trilane_engine::Gate;

use super::command::planned;
use crate::{FAILED, USAGE, code_of, load_of};

/// Words, and a part of what is said to them.
type Wrong<'a> = (&'a [&'a str], &'a str);

/// What `trilane load` says to these words and its exit code, where it sends nothing.
fn refused(words: &[&str]) -> Option<(u8, String)> {
    let arguments = match load_of(words.iter().map(|word| (*word).to_owned()).collect()) {
        Ok(arguments) => arguments,
        Err(told) => return Some((USAGE, told)),
    };
    let error = planned(&arguments, None).err()?;
    Some((code_of(&error), error.to_string()))
}

/// Each is wrong use.
fn check<'a>(wrong: impl IntoIterator<Item = Wrong<'a>>) {
    for (words, said) in wrong {
        let (code, told) = refused(words).unwrap_or_else(|| panic!("{words:?} is taken"));
        assert!(told.contains(said), "{words:?}: {told}");
        assert_eq!(code, USAGE, "{words:?}: {told}");
    }
}

/// The same words before each, with one URL behind them.
fn check_with(common: &[&str], wrong: &[(&str, &str)], url: &str) {
    for (words, said) in wrong {
        let words = common.iter().copied().chain(words.split_whitespace());
        let words: Vec<_> = words.chain([url]).collect();
        check([(&*words, *said)]);
    }
}

const PLAIN: &str = "http://127.0.0.1:9/hello";
const SECURE: &str = "https://127.0.0.1:9/";

#[test]
fn the_target_is_a_url() {
    check([
        (&[][..], "http"),
        (&["example.org"], "http://example.org"),
        (&["ftp://example.org/"], "http"),
        (&["http://"], "http"),
        (&["http://user:secret@127.0.0.1/"], "Authorization"),
        (&[PLAIN, "https://127.0.0.1:10/"], "type --h1"),
        (&["http://{seq}/"], "outside of path and query"),
        (
            &["http://a/{csv:x.csv}"],
            "write for example {csv:users.csv:name}",
        ),
    ]);
}

#[test]
fn flags_are_those_of_the_help_and_their_values_are_numbers_times_and_names() {
    check_with(
        &[],
        &[
            ("--no-such-flag", "--no-such-flag"),
            ("-c 0", "-c"),
            ("-c many", "--connections"),
            ("-c -1", "-1"),
            ("-m 0", "-m"),
            ("--h1 -m 8", "-c"),
            ("-n 0", "-n"),
            ("-d 0", "-d"),
            ("-d ten", "10s"),
            ("-R fast", "--rate"),
            ("-R 0", "--rate"),
            ("--timeout 0", "--timeout"),
            ("--h1 --h2c", "--h"),
            ("--h2", "--h2c"),
            ("--h3", "https"),
            ("--fail-if p99", "--fail-if"),
            ("--fail-if speed>1", "--fail-if"),
            ("--fail-if failed>0,p99", "--fail-if"),
            ("--format xml", "json"),
            ("--connect-to nowhere", "--connect-to"),
            ("--connect-parallel 0", "type --connect-parallel 8"),
            (
                "--new-connections --requests-per-connection 1",
                "cannot be used with",
            ),
            (
                "--requests-per-connection 0",
                "type --requests-per-connection 1",
            ),
            ("--server-pid 0", "--server-pid"),
            ("--expect-status MISSING", "NOT_FOUND"),
            ("--expect-status NOT_FOUND", "--grpc"),
            ("--h2c --discard-bodies", "HTTP/1.1 without TLS"),
            ("--discard-bodies --check-body", "--check-body"),
            (
                "--h2c --max-frame-size 8k",
                "--max-frame-size 8192 is not between 16384 and 16777215 bytes",
            ),
            ("--search p99", "--search 'p99<10ms, error_rate<0.1%'"),
            ("--search p99<1s -n 5", "--count"),
            ("--search p99<1s --stages 1s:5", "--stages"),
            ("--live --search p99<10ms", "--live"),
            ("--otlp 127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("--in-turn {\"start_ns\":1", "--in-turn"),
            ("--in-turn {\"start_ns\":1}", "missing field"),
        ],
        PLAIN,
    );
    check([
        (&[PLAIN, "-H", "no colon"][..], "-H"),
        (&[PLAIN, "-H", "X-Split: a\r\nX-Evil: b"], "X-Split"),
        (&[PLAIN, "-X", "GET /other HTTP/1.1\r\nX:"], "method"),
        (
            &[PLAIN, "-H", "x: ${NO_SUCH_NAME}"],
            "NO_SUCH_NAME is not set",
        ),
        (&["--h2c", PLAIN, "-H", "Connection: close"], "RFC 9113"),
        (&[PLAIN, "-H", "Host: {seq}"], "\"Host\" cannot be set here"),
    ]);
    for alias in [
        &["-z", "300ms"][..],
        &["-D", "300ms"],
        &["-d", "1s", "-q", "50"],
    ] {
        assert_eq!(refused(&[alias, &[PLAIN]].concat()), None, "{alias:?}");
    }
}

#[test]
fn an_option_with_several_thresholds_has_commas_between_them() {
    let words = [
        "--fail-if",
        "p99>10ms, rate<1k",
        "--fail-if",
        "failed>0",
        PLAIN,
    ];
    let arguments = load_of(words.map(str::to_owned).to_vec()).unwrap();
    let read: Vec<_> = arguments.fail_if.iter().map(Gate::spaced).collect();
    assert_eq!(
        read,
        [
            "p99 > 10 ms",
            "rate < 1000 requests/s",
            "failed > 0 requests"
        ]
    );
}

#[test]
fn turns_of_a_run_are_possible_ones() {
    let turn = |length: &str, index: u32| {
        format!(r#"{{"start_ns": 1, "length_s": {length}, "of": 2, "index": {index}, "seed": 1}}"#)
    };
    check([
        (&[PLAIN, "--in-turn", &turn("0.02", 2)][..], "turn 2 of 2"),
        (
            &[PLAIN, "--in-turn", &turn("1e18", 1)],
            "a turn takes 1ms to 10s",
        ),
        (&[PLAIN, "--in-turn", &turn("-1", 1)], "negative"),
        (
            &[PLAIN, "--in-turn", &turn("0.02", 1), "-n", "10"],
            "-n says something else",
        ),
    ]);
}

#[test]
fn what_says_when_requests_leave_does_not_contradict_itself() {
    check_with(
        &[],
        &[
            ("--arrivals poisson", "type it with -R 1k"),
            ("--shed-after 1s", "type it with -R 1k"),
            ("--stages 10s:1k -R 5", "-R and --stages do not go together"),
            ("--stages 10s:1k -n 5", "-n and --stages do not go together"),
            ("--stages 0s:1k", "takes no time"),
            ("--stages 1s:0,2s:0", "send nothing at all"),
            ("--stages 10s", "\"10s\" has not the form TIME:PER_SECOND"),
            ("--stages 10s:1k,fast:2", "\"fast\" is not a time"),
            ("--stages 10s:many", "\"many\" is not a rate"),
            (
                "--stages-in-flight 1s:65",
                "up to 65 requests in flight, and -c 64 with -m 1 has room for 64: type -c 65",
            ),
            (
                "--h2c -c 3 -m 4 --stages-in-flight 1s:5,1s:13",
                "up to 13 requests in flight, and -c 3 with -m 4 has room for 12: type -c 4",
            ),
            (
                "--stages-in-flight 1s:5 -R 5",
                "-R and --stages-in-flight do not go",
            ),
            (
                "--stages-in-flight 1s:5 --stages 1s:5",
                "--stages and --stages-in-flight",
            ),
            (
                "--stages-in-flight 1s:5 -n 5",
                "-n and --stages-in-flight do not go",
            ),
            (
                "--stages-in-flight 1s:5 -d 5s",
                "-d and --stages-in-flight do not go",
            ),
            (
                "--stages-in-flight 1s:5 --warmup 1s",
                "--warmup and --stages-in-flight",
            ),
            ("--stages-in-flight 0s:5", "takes no time"),
            ("--stages-in-flight 1s:0", "send nothing at all"),
            (
                "--stages-in-flight 1s",
                "\"1s\" has not the form TIME:REQUESTS",
            ),
            ("--stages-in-flight 1s:few", "\"few\" is not a count"),
            (
                "--stages-in-flight 1s:5 --arrivals poisson",
                "type it with -R 1k",
            ),
            (
                "--rate-per-connection 5 -R 5",
                "-R and --rate-per-connection do not go",
            ),
            (
                "--rate-per-connection 5 --stages 1s:5",
                "--stages and --rate-per-connection",
            ),
            (
                "--rate-per-connection 5 --arrivals poisson",
                "at an even spacing",
            ),
            (
                "--rate-per-connection 5 --stages-in-flight 1s:5",
                "do not go together",
            ),
            ("--rate-per-connection none", "\"none\" is not a rate"),
        ],
        PLAIN,
    );
}

#[test]
fn what_is_about_quic_and_tls_is_for_them_alone() {
    check_with(
        &[],
        &[
            ("--quic-ack-frequency 10", "type it with --h3"),
            ("--quic-initial-packet-size 1300", "type it with --h3"),
            ("--quic-mtu-discovery off --h2c", "type it with --h3"),
            ("--tls 1.3", "type https://"),
            ("--keepalive 1s", "--h2c"),
            ("--h2c --keepalive 1ms", "--keepalive 10s"),
            ("--proxy-source 10.0.0.1", "--proxy-protocol"),
            ("--proxy-protocol v3", "possible values: v1, v2"),
            (
                "--proxy-protocol v1 --proxy-source 10.0.0.0/33",
                "type --proxy-source 10.0.0.0/24",
            ),
            (
                "--proxy-protocol v1 --proxy-source 10.0.0.1 --connect-to unix:/run/x",
                "type --connect-to HOST:PORT",
            ),
        ],
        PLAIN,
    );
    check_with(
        &[],
        &[
            ("--h2c", "--h2"),
            (
                "--h3 --quic-initial-packet-size 1100",
                "1100 is not between 1200 and 1452 bytes",
            ),
            (
                "--h3 --quic-initial-packet-size 9k",
                "9216 is not between 1200 and 1452 bytes",
            ),
            ("--h3 --quic-ack-frequency 0", "type --quic-ack-frequency 1"),
            (
                "--quic-shared-socket --h2",
                "--quic-shared-socket is about QUIC",
            ),
            ("--proxy-protocol v2 --h3", "type --h2 or --h1"),
            ("--tls 1.2 --h3", "QUIC is TLS 1.3"),
            ("--ciphers RC4-MD5", "TLS_AES_128_GCM_SHA256"),
            ("--tls 1.2 --early-data --h1", "--tls 1.3"),
            (
                "--tls 1.2 --ciphers TLS_AES_128_GCM_SHA256",
                "--ciphers: none of these cipher suites is of the version of TLS",
            ),
            ("--discard-bodies --h1", "HTTP/1.1 without TLS"),
            ("--cert client.pem", "--key"),
        ],
        SECURE,
    );
}

#[test]
fn several_origins_have_one_version_and_a_rate_for_all() {
    check([
        (
            &["http://a/", "https://b/"][..],
            "type --h1, which both are spoken over, or run load once",
        ),
        (&["--h2", "https://a/", "http://b/"], "--h2 needs TLS"),
        (
            &["--stages-in-flight", "1s:5", "http://a/", "http://b/"],
            "run load once for each",
        ),
    ]);
}

#[test]
fn websockets_and_events_are_asked_for_as_they_are() {
    check_with(
        &[],
        &[
            (
                "--rate-per-connection 5",
                "over HTTP/1.1 each WebSocket has its own",
            ),
            (
                "--requests-per-connection 5",
                "over HTTP/1.1 each WebSocket has its own",
            ),
            ("http://a/", "one of them is a WebSocket"),
            ("-X POST", "-X has no meaning"),
            ("--expect-status 101", "--expect-status has no meaning"),
            ("--events sse", "type --ws subscribe"),
            ("--events messages", "--ws subscribe"),
            ("--ws subscribe --events sse", "type --events messages"),
            ("--ws-messages 0", "--ws-messages"),
            ("--ws subscribe --ws-window 3", "--ws-window"),
            ("-b {seq}", "the message of a WebSocket is the same"),
            ("-m 2", "-m 2"),
            ("--h2", "--h2 needs TLS: type a URL with wss://"),
        ],
        "ws://a/",
    );
    check([
        (
            &["--h3", "wss://a/"][..],
            "--h3: WebSockets over HTTP/3 (RFC 9220) cannot be loaded",
        ),
        (
            &["--h2c", "wss://a/"],
            "--h2c is HTTP/2 without TLS: type a URL with ws://",
        ),
        (
            &["-H", "X-Id: {seq}", "ws://a/"],
            "the opening handshake of a WebSocket is the same",
        ),
        (&["-H", "Sec-WebSocket-Key: x", "ws://a/"], "by itself"),
        (&["ws://a/{seq}"], "the URL of a WebSocket is the same"),
    ]);
    check_with(
        &[],
        &[
            ("--ws echo", "type ws:// or wss://"),
            ("--events xml", "sse"),
            ("--first-event x", "--events"),
            (
                "--events sse --first-event (",
                "--first-event: regex parse error",
            ),
            ("--events sse --check-body", "--check-body"),
            ("--events messages", "--grpc"),
        ],
        PLAIN,
    );
}

const METHOD: &str = "trilane.library.v1.Library/GetBook";

/// The flags of a call of the library service, which is read from its file.
fn calling(method: &'static str) -> [&'static str; 6] {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proto/trilane/library/v1/library.proto"
    );
    ["--grpc", method, "--proto", file, "--proto-path", proto]
}

#[test]
fn calls_are_grpc_s() {
    check_with(
        &calling(METHOD),
        &[
            ("--h1", "--h2c"),
            ("--h2", "--h2c"),
            ("--grpc-mode quick", "wire, codec"),
            ("--grpc-protocol twirp", "grpc-web"),
            ("--deadline 0", "--deadline"),
            ("--deadline soon", "--deadline"),
            ("--messages 0", "--messages"),
            ("--messages 2", "unary"),
            ("--max-message 0", "--max-message"),
            ("-X PUT", "--method"),
            ("-H content-type:text/plain", "content-type"),
            ("-H te:gzip", "te"),
            ("-H grpc-timeout:1S", "grpc-timeout"),
            ("-H grpc-encoding:gzip", "grpc-encoding"),
            ("-H blob-bin:not-base-64!", "blob-bin"),
            ("--descriptor-set x.pb", "--descriptor-set"),
            ("--expect-status 200", "OK,NOT_FOUND"),
            ("-b {\"name\":5}", "--body: field name: "),
            ("-b {\"name\":{seq}}", "name"),
            ("-b {\"nam\":\"{seq}\"}", "nam"),
            ("-b {\"name\":\"{rand:9-1}\"}", "rand:9-1"),
            ("-b x --message-format delimited", "--body"),
        ],
        PLAIN.trim_end_matches("hello"),
    );
    check_with(&calling(METHOD), &[("--h1", "--h2")], SECURE);
    for protocol in ["grpc-web", "connect"] {
        // A stream to the server needs both directions at once.
        for method in ["ImportBooks", "LookUpBooks"] {
            let method = format!("trilane.library.v1.Library/{method}");
            let [grpc, _, source @ ..] = calling(METHOD);
            let words = [
                &[grpc, &method],
                &source[..],
                &["--grpc-protocol", protocol, "--h1", "http://a/"],
            ];
            check([(&*words.concat(), "HTTP/2 or HTTP/3")]);
        }
    }
    // Without a version: the one that calls go over.
    let call = [&calling(METHOD)[..], &["http://a/"]].concat();
    assert_eq!(refused(&call), None);
}

#[test]
fn what_is_about_calls_needs_one() {
    check_with(
        &[],
        &[
            ("--proto x.proto", "--grpc"),
            ("--descriptor-set x.pb", "--grpc"),
            ("--deadline 1s", "--grpc"),
            ("--grpc-mode codec", "--grpc"),
            ("--grpc-protocol connect", "--grpc"),
            ("--messages 2", "--grpc"),
            ("--gzip", "--grpc"),
            (
                "--grpc trilane.library.v1.Library/GetBook --proto-path proto",
                "--proto",
            ),
        ],
        PLAIN,
    );
}

/// What is said of a file with this text, which `flag` names.
fn of_file(flag: &str, name: &str, text: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let words = [&[flag, file.to_str().unwrap()], more].concat();
    let (code, told) = refused(&words).unwrap_or_else(|| panic!("{text:?} is taken"));
    assert_eq!(code, USAGE, "{told}");
    told
}

const BASE: [&str; 1] = ["http://a"];
/// A flag, the file that it names with its text, what else is typed, and what is said.
type WrongFile = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);
const WRONG_FILES: &[WrongFile] = &[
    (
        "--requests",
        "a.jsonl",
        "{\"url\": \"/\"}\n{\"url\": 1}\n",
        &BASE,
        "a.jsonl:2:9: invalid type",
    ),
    ("--requests", "a.jsonl", "", &BASE, "has no request"),
    (
        "--requests",
        "a.jsonl",
        "{\"url\": \"/x\"}\n",
        &[],
        "\"/x\" is a path without a server",
    ),
    (
        "--requests",
        "a.jsonl",
        "{\"url\": \"/{rand:2-1}\"}\n",
        &BASE,
        "a.jsonl:1: {rand:2-1} is not a range",
    ),
    (
        "--requests",
        "a.jsonl",
        "{\"url\": \"/\"}\n{\"url\": \"https://b/\"}\n",
        &BASE,
        "a.jsonl:2: http://a/ and https://b/",
    ),
    (
        "--requests",
        "a.jsonl",
        "{\"url\": \"/\", \"weight\": 0}\n",
        &BASE,
        "a.jsonl:1: the weight 0",
    ),
    (
        "--requests",
        "a.jsonl",
        "{\"url\": \"/\", \"headers\": {\"a b\": \"c\"}}\n",
        &BASE,
        "a.jsonl:1: header name \"a b\"",
    ),
    (
        "--requests",
        "a.http",
        "GET {{host}}/\n",
        &BASE,
        "a.http:1:7: the variable \"host\" is not known",
    ),
    (
        "--har",
        "a.har",
        "[]",
        &[],
        "a.har:1:2: this is not an HTTP Archive",
    ),
    (
        "--scenario",
        "a.toml",
        "[[steps]]\nulr = '/'\n",
        &BASE,
        ":2:1: unknown field `ulr`",
    ),
    (
        "--scenario",
        "a.toml",
        "[[steps]]\nurl = '/{var:x}'\n",
        &BASE,
        "and no step takes any",
    ),
    (
        "--scenario",
        "a.toml",
        "[[steps]]\nurl = '/'\ntake = { y = { regex = '(' } }\n",
        &BASE,
        ":1:1: regex parse error",
    ),
    (
        "--scenario",
        "a.toml",
        "[[steps]]\nchoose = [{ steps = [{ url = '/a', take = { x = { json = '/x' } } }] }, { steps = [{ url = '/b' }] }]\n[[steps]]\nurl = '/{var:x}'\n",
        &BASE,
        ":3:1: {var:x}: not every way to this step goes through one that takes",
    ),
    (
        "--scenario",
        "a.toml",
        "[[steps]]\npause = '1s'\n",
        &BASE,
        "a scenario sends a request each time",
    ),
];

#[test]
fn what_is_wrong_in_a_file_is_named_by_its_place() {
    for (flag, name, text, more, said) in WRONG_FILES {
        let told = of_file(flag, name, text, more);
        assert!(told.contains(said), "{text}: {told}");
    }
    let visit = "[[steps]]\nurl = '/'\n";
    for (words, said) in [
        (&["--check-body"][..], "--check-body"),
        (&["--early-data"], "--early-data"),
        (&["--users", "1", "-t", "2", "-c", "2"], "--users"),
    ] {
        let told = of_file("--scenario", "a.toml", visit, &[words, &BASE].concat());
        assert!(told.contains(said), "{words:?}: {told}");
    }
    check_with(&["--users", "3"], &[("", "--scenario")], PLAIN);
}

#[test]
fn a_line_of_a_file_that_cannot_be_called_is_named() {
    let [_, _, source @ ..] = calling(METHOD);
    let more = [&source[..], &["--h2c", "http://a/"]].concat();
    for (rest, said) in [
        (r#""method": "GET""#, ["a.jsonl:1:1", "method of HTTP"]),
        (r#""body": {"nam": "x"}"#, ["a.jsonl:1", "nam"]),
        (r#""body": [{}, {}]"#, ["a.jsonl:1", "one message"]),
        (r#""headers": {"te": "x"}"#, ["a.jsonl:1", "te"]),
        (r#""expect": {"status": "LOST"}"#, ["a.jsonl:1:1", "LOST"]),
    ] {
        let line = format!("{{\"grpc\": \"{METHOD}\", {rest}}}");
        let told = of_file("--requests", "a.jsonl", &line, &more);
        assert!(
            said.iter().all(|part| told.contains(part)),
            "{line}: {told}"
        );
    }
    let misspelt = r#"{"grpc": "trilane.library.v1.Library/GetBok"}"#;
    let told = of_file("--requests", "a.jsonl", misspelt, &more);
    assert!(
        told.contains("a.jsonl:1") && told.contains("GetBook"),
        "{told}"
    );
}

#[test]
fn what_goes_with_files_of_requests_is_told() {
    check_with(
        &[],
        &[
            ("--weights 1,2", "--weights has 2 numbers for 1 URLs"),
            ("--weights 0", "--weights"),
            ("--requests 100", "for a number of requests type -n 100"),
        ],
        PLAIN,
    );
    check([
        (
            &["--check-body", "http://a/{seq}"][..],
            "leave --check-body out",
        ),
        (&["--har-host", "a"], "--har"),
        (&["--har-host", "a", PLAIN], "--har-host"),
        (&["--users", "3", "-X", "POST", PLAIN], "--users"),
        (
            &[
                "--grpc",
                "a.B/C",
                "--proto-path",
                "a",
                "--descriptor-set",
                "b",
                PLAIN,
            ],
            "--proto-path",
        ),
    ]);
}

#[test]
fn a_file_that_is_not_there_is_named_with_its_flag() {
    let name = "/nowhere/file";
    assert!(!Path::new(name).exists());
    for words in [
        &["--cacert", name][..],
        &["--cert", name, "--key", "/nowhere/key"],
        &["--body", "@/nowhere/file"],
        &["--requests", name],
        &["--grpc", METHOD, "--proto", name],
        &["--grpc", METHOD, "--descriptor-set", name],
    ] {
        let (code, told) = refused(&[words, &[SECURE]].concat()).unwrap();
        assert!(
            told.starts_with(words[words.len() - 2]) || told.starts_with(words[0]),
            "{told}"
        );
        assert!(told.contains(name), "{told}");
        assert_eq!(code, FAILED, "{told}");
    }
}

#[test]
fn lines_of_other_tools_are_those_that_are_understood() {
    check([
        (
            &["--compat", "wrk", "--", "-s", "a.lua", "http://a/"][..],
            "-s is not among what is",
        ),
        (
            &["--compat", "siege", "--", "http://a/"],
            "invalid value 'siege'",
        ),
        (&["--compat", "oha", "--"], "<URL>"),
    ]);
}
