//! A server that answers reflection with anything: the walk ends, and a schema that came of it can be
//! used.

use trilane_grpc::reflection::Walk;
use trilane_grpc::{Schema, status};

/// Reads messages by the first method of each service, and bytes as its responses.
fn exercise(schema: &Schema, bytes: &[u8]) {
    for service in schema.pool().services() {
        for method in service.methods() {
            let name = format!("{}/{}", service.full_name(), method.name());
            let Ok(method) = schema.method(&name) else {
                panic!("{name} is in the schema");
            };
            let _ = method.decode(bytes);
            let _ = method.requests("{\"a\": [1, {\"b\": null}]}");
            assert!(method.requests("").is_ok());
        }
    }
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let _ = status::parse(data);
    assert!(!status::message(data).contains(char::is_control));
    if let Ok(schema) = Schema::from_descriptor_set("set", data) {
        exercise(&schema, data);
    }

    let mut answers = data.split(|&byte| byte == 0xff).cycle();
    let mut walk = Walk::new("host", "a.B");
    loop {
        let requests = walk.requests();
        if requests.is_empty() {
            break;
        }
        for _ in requests {
            let answer = answers.next().unwrap_or_default();
            // A call may end with a status before all of its questions are answered.
            if let [0, code, text @ ..] = answer {
                let code = status::Code::from_u32((*code).into());
                let code = code.unwrap_or(status::Code::Unknown);
                let _ = walk.status(code, &status::message(text));
                break;
            }
            if walk.response(answer).is_err() {
                break;
            }
        }
    }
    if let Ok(schema) = walk.finish() {
        exercise(&schema, data);
    }
}
