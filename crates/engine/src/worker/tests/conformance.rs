//! Servers that break rules: every case of `tests/conformance`.

use serde_json::{Value, json};
use trilane_conformance::{Case, Expected, cases};

use super::*;

/// What is counted as ok unless something else is asked for.
const FINE: std::ops::Range<u16> = 200..400;

#[test]
fn every_case_of_http_1_1_is_counted_as_what_it_is() {
    play(Version::H1, trilane_conformance::Version::H1);
}

#[test]
fn every_case_of_http_2_is_counted_as_what_it_is() {
    play(Version::H2c, trilane_conformance::Version::H2);
}

#[test]
fn every_case_of_http_3_is_counted_as_what_it_is() {
    play(Version::H3, trilane_conformance::Version::H3);
}

fn play(version: Version, of: trilane_conformance::Version) {
    for case in cases(of) {
        let options = Options {
            method: Some(case.method.clone()),
            connections: 1,
            streams: 1,
            check_body: true,
            ..counted(case.requests as u64, version)
        };
        let serve = Serve {
            plays: Some(case),
            ..Serve::well()
        };
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
        let report = report.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        judge(case, &outcome(&options, report));
        case.judge(&seen.played, &case.engine);
    }
}

fn judge(case: &Case, outcome: &Outcome) {
    let outcome = serde_json::to_value(outcome).unwrap();
    let counted = |kind: &str| json!({ kind: case.requests });
    let (mut failures, mut statuses, mut body) = (json!({}), json!({}), Value::Null);
    match &case.engine {
        Expected::Failed { failure, .. } => failures = counted(failure),
        Expected::Taken {
            status, content, ..
        } => {
            statuses = counted(&status.to_string());
            if FINE.contains(status) {
                let crc32 = format!("{:08x}", crc32fast::hash(&content.0));
                body = json!({ "bytes": content.0.len(), "crc32": crc32 });
            } else {
                failures = counted("status");
            }
        }
    }
    let found = outcome["requests"]["failures"].as_object().unwrap();
    let found: Value = found
        .iter()
        .map(|(kind, of)| (kind.clone(), of["count"].clone()))
        .collect();
    assert_eq!(found, failures, "{}: {}", case.name, outcome["requests"]);
    if statuses != json!({}) {
        assert_eq!(outcome["status"], statuses, "{}", case.name);
        assert_eq!(outcome["target"]["body"], body, "{}", case.name);
    }
}
