//! A server's HTTP/1.1 bytes: the quick and the strict reader agree, whatever the splits.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use trilane_fuzz::{Checker, Stream, one_off, request};
use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{ConnectionError, Encoding, FieldList, Upload};

type Outcome = (BTreeMap<u64, Stream>, Option<ConnectionError>, bool);

fn run<const FIELDS: bool>(method: &str, limits: Limits, answer: &[u8], step: usize) -> Outcome {
    let request = match method {
        "GET" | "HEAD" => request(method, 0),
        _ => one_off(Encoding::H1, method),
    };
    let mut connection = Connection::new(limits);
    let mut checker = Checker::<FIELDS>::default();
    let mut out = Vec::new();
    let mut lost = None;
    // The same again meets what the connection remembers of the first.
    for slot in 0..3 {
        let Ok(stream) = connection.send(&request, slot, &mut out) else {
            break;
        };
        // Every second time to its end.
        if connection.write(stream, b"content", &mut out) > 0 && slot % 2 == 0 {
            let finished = connection.finish(stream, &FieldList::new(), &mut out);
            assert_eq!(finished, Ok(()));
        }
        assert_eq!(
            connection.upload(stream) == Upload::Open,
            method == "PUT" && slot % 2 == 1
        );
        let result = answer
            .chunks(step)
            .try_for_each(|piece| connection.receive(piece, &mut checker, &mut out));
        if let Err(error) = result {
            lost = Some(error);
            break;
        }
    }
    if lost.is_none() {
        connection.eof(&mut checker);
    }
    assert_eq!(connection.outstanding(), 0);
    assert!(connection.is_closing());
    (checker.into_streams(), lost, connection.is_closing())
}

fuzz_target!(|data: &[u8]| {
    let [flags, step, answer @ ..] = data else {
        return;
    };
    let method = match (flags & 1, flags & 4) {
        (0, 0) => "GET",
        (1, 0) => "HEAD",
        (0, _) => "PUT",
        _ => "CONNECT",
    };
    let limits = if flags & 2 == 0 {
        Limits::default()
    } else {
        Limits {
            head_bytes: 100,
            fields: 3,
            informational: 1,
        }
    };
    let step = usize::from(*step).max(1);
    let strict = run::<true>(method, limits, answer, usize::MAX);
    assert_eq!(run::<false>(method, limits, answer, usize::MAX), strict);
    assert_eq!(run::<true>(method, limits, answer, step), strict);
    assert_eq!(run::<false>(method, limits, answer, step), strict);
});
