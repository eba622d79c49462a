//! Our QPACK against ls-qpack, by Python's `pylsqpack`, both ways.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use trilane_wire::qpack::{self, DecodeError};
use trilane_wire::request::Indexing;

/// Reads a line of JSON, answers with one. `encode` takes fields in hexadecimal and gives a section;
/// `decode` the other way round. A fresh encoder with capacity 0 each time: no dynamic table.
const SCRIPT: &str = r#"
import sys, json, pylsqpack
for line in sys.stdin:
    kind, value = json.loads(line)
    if kind == "encode":
        fields = [(bytes.fromhex(n), bytes.fromhex(v)) for n, v in value]
        _, section = pylsqpack.Encoder().encode(0, fields)
        answer = section.hex()
    else:
        _, fields = pylsqpack.Decoder(0, 0).feed_header(0, bytes.fromhex(value))
        answer = [[n.hex(), v.hex()] for n, v in fields]
    print(json.dumps(answer), flush=True)
"#;

struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Python {
    /// `None`, with a printed reason, where the package is missing.
    fn start() -> Option<Self> {
        let program = std::env::var("TRILANE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
        let has = Command::new(&program)
            .args(["-c", "import pylsqpack"])
            .output();
        if !has.as_ref().is_ok_and(|output| output.status.success()) {
            let reason = format!("{program} cannot import pylsqpack: {has:?}");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
        let mut child = Command::new(&program)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Self {
            child,
            input,
            output,
        })
    }

    fn ask(&mut self, question: serde_json::Value) -> serde_json::Value {
        writeln!(self.input, "{question}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

fn decode(section: &[u8]) -> Result<Fields, DecodeError<()>> {
    let mut fields = Vec::new();
    qpack::decode(section, u64::MAX, &mut Vec::new(), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(fields)
}

/// Names and values of the static table, their neighbours, and anything else.
fn fields() -> impl Strategy<Value = Fields> {
    let name = prop_oneof![
        prop::sample::select(vec![
            ":authority",
            ":path",
            ":method",
            ":status",
            "cookie",
            "content-length",
            "date",
            "vary",
            "accept-encoding",
            "x-frame-options",
            "authorization",
            "access-control-allow-headers",
        ])
        .prop_map(|name| name.as_bytes().to_vec()),
        "[a-z0-9-]{1,30}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 1..200),
    ];
    let value = prop_oneof![
        prop::sample::select(vec![
            "",
            "/",
            "GET",
            "200",
            "0",
            "100",
            "500",
            "deny",
            "sameorigin"
        ])
        .prop_map(|value| value.as_bytes().to_vec()),
        "[ -~]{0,60}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..300),
    ];
    // ls-qpack takes no section without fields, and no message has one.
    prop::collection::vec((name, value), 1..12)
}

#[test]
fn sections_of_either_are_read_by_the_other() {
    let Some(python) = Python::start() else {
        return;
    };
    let python = std::cell::RefCell::new(python);
    let indexing = prop::sample::select(vec![
        Indexing::Incremental,
        Indexing::Without,
        Indexing::Never,
    ]);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 500,
        ..ProptestConfig::default()
    });
    runner
        .run(&(fields(), indexing), |(fields, indexing)| {
            let ask = |question| python.borrow_mut().ask(question);
            let mut ours = Vec::new();
            qpack::encode(
                fields.iter().map(|(n, v)| (&n[..], &v[..], indexing)),
                &mut ours,
            );
            prop_assert_eq!(decode(&ours).unwrap(), fields.clone());
            let pairs: Vec<_> = fields.iter().map(|(n, v)| [hex(n), hex(v)]).collect();
            let read = ask(serde_json::json!(["decode", hex(&ours)]));
            prop_assert_eq!(read, serde_json::json!(pairs.clone()));

            let theirs = ask(serde_json::json!(["encode", pairs]));
            let theirs = unhex(theirs.as_str().unwrap());
            prop_assert_eq!(decode(&theirs).unwrap(), fields);
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_static_table_is_the_same() {
    let Some(mut python) = Python::start() else {
        return;
    };
    for index in 0u8..99 {
        let mut section = vec![0, 0];
        if index < 63 {
            section.push(0xc0 | index);
        } else {
            section.extend([0xff, index - 63]);
        }
        let read = python.ask(serde_json::json!(["decode", hex(&section)]));
        let ours = decode(&section).unwrap();
        let pairs: Vec<_> = ours.iter().map(|(n, v)| [hex(n), hex(v)]).collect();
        assert_eq!(read, serde_json::json!(pairs), "entry {index}");
    }
    assert!(decode(&[0, 0, 0xff, 36]).is_err(), "there is no entry 99");
}

proptest! {
    #[test]
    fn random_sections_do_not_panic(section in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&section);
        let _ = decode(&[&[0, 0], &section[..]].concat());
    }
}
