//! Against tonic: its reflection service, asked by a [`Walk`] through our own frames, without a
//! network.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::convert::Infallible;
use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tonic::codegen::Service;
use trilane_grpc::reflection::{ReflectionError, Version, Walk};
use trilane_grpc::status::{self, Code};
use trilane_grpc::{Schema, frame};

const LIBRARY: &str = "trilane.library.v1.Library";

fn library() -> Schema {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/trilane/library/v1/library.proto");
    Schema::from_proto(&[file], &[]).unwrap()
}

fn builder(set: &[u8]) -> tonic_reflection::server::Builder<'_> {
    tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(set)
}

/// One call: the messages that came, and its status with the message.
async fn call<S>(server: &mut S, path: &str, messages: &[Vec<u8>]) -> (Vec<Vec<u8>>, Code, String)
where
    S: Service<
            http::Request<Full<Bytes>>,
            Response = http::Response<tonic::body::Body>,
            Error = Infallible,
        >,
{
    let mut content = Vec::new();
    for message in messages {
        frame::write(message, false, &mut content);
    }
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(content.into()))
        .unwrap();
    let (head, body) = server.call(request).await.unwrap().into_parts();
    assert_eq!(head.status, 200);
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let field = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name));
        value.map(|value| value.as_bytes().to_vec())
    };
    let code = status::parse(&field("grpc-status").unwrap()).unwrap();
    let text = status::message(&field("grpc-message").unwrap_or_default());
    let mut answers = Vec::new();
    let mut collector = frame::Collector::new(1 << 20);
    collector
        .feed(&body.to_bytes(), |compressed, message| {
            assert!(!compressed);
            answers.push(message.to_vec());
        })
        .unwrap();
    assert!(collector.is_at_boundary());
    (answers, code, text)
}

async fn walk<S>(server: &mut S, version: Version, symbol: &str) -> Result<Schema, ReflectionError>
where
    S: Service<
            http::Request<Full<Bytes>>,
            Response = http::Response<tonic::body::Body>,
            Error = Infallible,
        >,
{
    let mut walk = Walk::new("localhost", symbol);
    loop {
        let requests = walk.requests();
        if requests.is_empty() {
            return walk.finish();
        }
        let (answers, code, text) = call(server, version.path(), &requests).await;
        for answer in answers {
            walk.response(&answer)?;
        }
        if code != Code::Ok {
            walk.status(code, &text)?;
        }
    }
}

fn check(schema: &Schema) {
    let method = schema
        .method("trilane.library.v1.Library/ListBooks")
        .unwrap();
    let json = r#"{"parent": "shelves/1", "filter": {"authors": ["a"], "read": true}}"#;
    assert_eq!(method.requests(json).unwrap().len(), 1);
}

#[tokio::test]
async fn both_versions_give_the_schema() {
    let set = library().pool().encode_to_vec();
    let mut v1 = builder(&set).build_v1().unwrap();
    check(&walk(&mut v1, Version::V1, LIBRARY).await.unwrap());
    let all = walk(&mut v1, Version::V1, "").await.unwrap();
    check(&all);
    assert!(
        all.method("grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
            .is_ok()
    );

    let mut v1alpha = builder(&set).build_v1alpha().unwrap();
    check(&walk(&mut v1alpha, Version::V1Alpha, LIBRARY).await.unwrap());
}

#[tokio::test]
async fn an_unknown_service_is_told_with_those_there_are() {
    let set = library().pool().encode_to_vec();
    let mut server = builder(&set).build_v1().unwrap();
    let error = walk(&mut server, Version::V1, "trilane.v1.Library")
        .await
        .unwrap_err();
    assert_eq!(
        error,
        ReflectionError::Unknown(
            "the server has no service \"trilane.v1.Library\": it has trilane.library.v1.Library, \
             grpc.reflection.v1.ServerReflection"
                .into()
        )
    );
}

#[tokio::test]
async fn googles_files_may_be_missing() {
    let schema = library();
    let file = schema
        .pool()
        .get_file_by_name("trilane/library/v1/library.proto")
        .unwrap();
    let mut set = b"\x0a".to_vec();
    let encoded = file.encode_to_vec();
    let mut length = encoded.len();
    while length >= 0x80 {
        set.push((length & 0x7f | 0x80) as u8);
        length >>= 7;
    }
    set.push(length as u8);
    set.extend_from_slice(&encoded);
    let mut server = builder(&set).build_v1().unwrap();
    check(&walk(&mut server, Version::V1, LIBRARY).await.unwrap());
}
