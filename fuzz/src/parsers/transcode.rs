//! Path, query and content of a transcoded request: refused as the caller's fault, or a message that
//! can be sent on.

use std::path::Path;
use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage};
use serde::de::DeserializeSeed;
use trilane_grpc::json;
use trilane_transcode::{Format, Found, Router, status_content};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let includes = [
        root.join("../crates/transcode/tests"),
        root.join("../proto"),
    ];
    let mut compiler = protox::Compiler::new(includes).expect("the folders are there");
    compiler
        .include_imports(true)
        .open_file("bindings.proto")
        .expect("the file is sound");
    DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice())
        .expect("it was just encoded")
});
static ROUTER: LazyLock<Router> =
    LazyLock::new(|| Router::new(&POOL).expect("the bindings are sound"));

const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "PUT", "HEAD", "WEBSOCKET"];

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let mut parts = data.splitn(3, |&byte| byte == b'\n');
    let mut text = || std::str::from_utf8(parts.next().unwrap_or_default());
    let (Ok(path), Ok(query)) = (text(), text()) else {
        return;
    };
    let content = parts.next().unwrap_or_default();
    let _ = status_content(5, path, content, &POOL, Format::Json);
    let _ = Format::accept(query);
    let format = if choice & 1 == 0 {
        Format::Json
    } else {
        Format::Protobuf
    };
    let method = METHODS[usize::from(choice >> 1) % METHODS.len()];
    let Found::Match(found) = ROUTER.find(method, path) else {
        return;
    };
    if found.binding.takes_raw() {
        let raw = found.raw(Some(query), path, content.to_vec().into());
        let read = raw.map(|message| found.binding.raw_response(&message));
        if let Ok(Ok(read)) = read {
            assert_eq!(
                (read.content_type.as_str(), &read.data[..]),
                (path, content)
            );
        }
    }
    match found.message(Some(query), format, content) {
        Ok(message) => {
            let bytes = message.encode_to_vec();
            DynamicMessage::decode(message.descriptor(), bytes.as_slice())
                .expect("what was encoded");
            let mut out = Vec::new();
            if let Err(problem) = found.binding.response(&message, Format::Json, &mut out) {
                assert_eq!((problem.code, out.len()), (13, 0));
            }
            read_again(&message);
        }
        Err(problem) => {
            assert_eq!(problem.code, 3);
            assert!(problem.message.len() < 4000, "{problem}");
        }
    }
}

/// JSON that was written is read again, as the same message.
fn read_again(message: &DynamicMessage) {
    let mut out = Vec::new();
    if json::write(message, &mut out).is_err() {
        return; // such as a time beyond the year 9999
    }
    let descriptor = message.descriptor();
    let mut text = serde_json::Deserializer::from_slice(&out);
    let again = match json::MessageSeed(&descriptor).deserialize(&mut text) {
        Ok(again) => again,
        Err(reason) => {
            // Binary messages may be nested deeper than serde_json reads.
            assert!(reason.to_string().contains("recursion limit"), "{reason}");
            return;
        }
    };
    let mut second = Vec::new();
    json::write(&again, &mut second).expect("it was written before");
    // Entries of maps have no order.
    let values = [&out, &second].map(|text| serde_json::from_slice::<serde_json::Value>(text));
    let [Ok(first), Ok(second)] = values else {
        panic!("{} is no JSON", String::from_utf8_lossy(&out));
    };
    assert_eq!(first, second);
}
