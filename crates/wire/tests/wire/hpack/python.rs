//! Against Python's `hpack`, in both directions, with random tables and sizes.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use trilane_wire::hpack::{Decoder, Encoder};
use trilane_wire::request::Indexing;
use trilane_wire::{Request, RequestParts};

use super::generate::{Field, Random};
use crate::h2::common::{Client, HEADERS, settings};

/// The interpreter, running the peer.
struct Peer {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Peer {
    /// `None`, with a reason printed, where Python or its package is missing and may be.
    fn start() -> Option<Self> {
        let python = env::var("TRILANE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
        let probe = Command::new(&python).args(["-c", "import hpack"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            assert_ne!(
                env::var("CI").as_deref(),
                Ok("true"),
                "{python} has no package hpack"
            );
            println!("skipped: {python} has no package hpack (set TRILANE_TEST_PYTHON)");
            return None;
        }
        let mut child = Command::new(&python)
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/wire/hpack/peer.py"
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, lines })
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.child.stdin.as_mut().unwrap(), "{question}").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex
        .chars()
        .map(|digit| digit.to_digit(16).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

fn pairs(section: &[Field]) -> Vec<(String, String)> {
    section
        .iter()
        .map(|(name, value, _)| (hex(name), hex(value)))
        .collect()
}

#[test]
fn python_decodes_what_we_encode() {
    let Some(mut peer) = Peer::start() else {
        return;
    };
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut encoder = Encoder::new();
        peer.ask(&json!({"new": true}));
        for _ in 0..25 {
            for _ in 0..random.below(3) {
                let size = random.table_size();
                encoder.set_limit(size);
                peer.ask(&json!({"decoder_size": size}));
            }
            let section = random.section();
            let mut block = Vec::new();
            encoder.encode(
                section.iter().map(|(n, v, i)| (&n[..], &v[..], *i)),
                &mut block,
            );
            let answer = peer.ask(&json!({"decode": hex(&block)}));
            assert_eq!(answer, json!({"fields": pairs(&section)}), "seed {seed}");
        }
    }
}

#[test]
fn we_decode_what_python_encodes() {
    let Some(mut peer) = Peer::start() else {
        return;
    };
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut decoder = Decoder::new(4096);
        peer.ask(&json!({"new": true}));
        for _ in 0..25 {
            // One change at a time: of more, Python announces also those that are already revoked.
            if random.below(3) == 0 {
                let size = random.table_size();
                decoder.set_limit(size);
                peer.ask(&json!({"encoder_size": size}));
            }
            let section = random.section();
            let fields: Vec<_> = section
                .iter()
                .map(|(name, value, how)| (hex(name), hex(value), *how == Indexing::Never))
                .collect();
            let huffman = random.below(2) == 0;
            let answer = peer.ask(&json!({"encode": fields, "huffman": huffman}));
            let block = bytes(answer["block"].as_str().unwrap());
            let mut seen = Vec::new();
            let result =
                decoder.decode(&block, |name, value, _| seen.push((hex(name), hex(value))));
            assert_eq!((result, seen), (Ok(()), pairs(&section)), "seed {seed}");
        }
    }
}

/// Requests for so many paths, with fields of `random` lengths.
fn requests(count: usize, repeated: bool, random: &mut Random) -> Vec<Request> {
    let mut value = |longest| "v".repeat(random.below(longest));
    let fields = [
        ("user-agent".to_owned(), "trilane".to_owned()),
        ("cookie".to_owned(), value(200)),
        ("x-short".to_owned(), value(30)),
        ("x-long".to_owned(), value(1500)),
    ];
    let request = |number| {
        Request::new(&RequestParts {
            method: "GET",
            scheme: "http",
            authority: "a.example",
            // Those of the static table among them.
            path: &match number {
                0 => "/".to_owned(),
                1 => "/index.html".to_owned(),
                _ => format!("/books/{number}?q=\"{repeated}\""),
            },
            fields: &fields,
            body: Arc::default(),
            repeated,
        })
        .unwrap()
    };
    let mut requests: Vec<_> = (0..count).map(request).collect();
    Request::share_fields(&mut requests);
    requests
}

/// Blocks that are put together of what was encoded before, while entries come and go in the table and
/// its size changes.
#[test]
fn python_decodes_requests_that_share_their_fields() {
    let Some(mut peer) = Peer::start() else {
        return;
    };
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut all = requests(300, false, &mut random);
        all.extend(requests(40, false, &mut random));
        all.extend(requests(10, true, &mut random));
        let mut client = Client::new();
        peer.ask(&json!({"new": true}));
        for _ in 0..200 {
            for _ in 0..random.below(20).saturating_sub(17) {
                let size = random.table_size();
                client.receive(&settings(&[(1, size)]));
                peer.ask(&json!({"decoder_size": size}));
            }
            let request = &all[random.below(all.len())];
            client.send(request);
            let mut frames = client.written().into_iter();
            let head = frames.find(|frame| frame.kind == HEADERS).unwrap();
            let answer = peer.ask(&json!({"decode": hex(&head.payload)}));
            let expected: Vec<_> = request.fields().map(|(n, v, _)| (hex(n), hex(v))).collect();
            assert_eq!(answer, json!({"fields": expected}), "seed {seed}");
        }
    }
}
