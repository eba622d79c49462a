//! One method under every binding over every version.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Request;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::body::Body;

use crate::{
    channel::{Channel, WITH_TRAILERS, proto::Book},
    common::{Client, VERSIONS, run, start},
    grpc::{framed, get},
};

const PATH: &str = "/trilane.library.v1.Library/GetBook";

fn expected() -> Book {
    Book {
        name: "shelves/3/books/90".into(),
        author: "Author 14".into(),
        title: "Book 90 of shelf 3".into(),
        pages: 190,
        read: true,
        ..Book::default()
    }
}

/// The first message and the trailers of gRPC-Web's content.
fn unframed(content: &[u8]) -> (Book, String) {
    let length = u32::from_be_bytes(content[1..5].try_into().unwrap()) as usize;
    let (message, rest) = content[5..].split_at(length);
    assert_eq!(rest[0], 0x80, "a frame of trailers");
    let trailers = String::from_utf8(rest[5..].to_vec()).unwrap();
    (Book::decode(message).unwrap(), trailers)
}

#[test]
fn a_book_has_every_binding_over_every_version() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let rest = "/v1/shelves/3/books/90";

            let answer = client.get(rest).await;
            assert_eq!(answer.status, 200, "{version}");
            assert_eq!(answer.field("content-type"), "application/json");
            assert_eq!(answer.json()["title"], "Book 90 of shelf 3", "{version}");
            assert_eq!(answer.json()["pages"], 190, "{version}");

            let request = Request::get(rest).header("accept", "application/protobuf");
            let answer = client.send(request, "").await;
            assert_eq!(answer.field("content-type"), "application/protobuf");
            let book = Book::decode(answer.body).unwrap();
            assert_eq!(book, expected(), "{version}");

            let message = framed(&get("shelves/3/books/90"));
            for kind in ["application/grpc-web", "application/grpc-web+proto"] {
                let request = Request::post(PATH).header("content-type", kind);
                let answer = client.send(request, message.clone()).await;
                assert_eq!(answer.status, 200, "{version}");
                assert_eq!(answer.field("content-type"), "application/grpc-web+proto");
                let (book, trailers) = unframed(&answer.body);
                assert_eq!(book, expected(), "{version}");
                assert!(trailers.contains("grpc-status:0"), "{version} {trailers}");
            }

            let request = Request::post(PATH)
                .header("content-type", "application/grpc-web-text; charset=utf-8")
                .header("accept", "application/grpc-web-text");
            let answer = client.send(request, BASE64_STANDARD.encode(&message)).await;
            // Each frame is encoded by itself, with its own padding.
            let content: Vec<u8> = answer
                .body
                .chunks(4)
                .flat_map(|four| BASE64_STANDARD.decode(four).unwrap())
                .collect();
            assert_eq!(unframed(&content).0, expected(), "{version}");
        }
        for version in WITH_TRAILERS {
            for kind in ["application/grpc", "application/grpc+proto"] {
                let mut channel = Channel::connect(&target, version).await;
                let request = Request::post(PATH)
                    .header("content-type", kind)
                    .header("te", "trailers")
                    .body(Body::new(Full::from(framed(&get("shelves/3/books/90")))))
                    .unwrap();
                let response = channel.send(request).await.unwrap();
                let kind = response.headers()["content-type"].to_str().unwrap();
                assert!(kind.starts_with("application/grpc"), "{version} {kind}");
                let content = response.into_body().collect().await.unwrap();
                let trailers = content.trailers().unwrap().clone();
                assert_eq!(trailers["grpc-status"], "0", "{version}");
                let content = content.to_bytes();
                assert_eq!(
                    Book::decode(&content[5..]).unwrap(),
                    expected(),
                    "{version}"
                );
            }
        }
    });
}

#[test]
fn statuses_of_grpc_web_are_in_its_trailers_or_head() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let request = Request::post(PATH).header("content-type", "application/grpc-web");
            let answer = client
                .send(request, framed(&get("shelves/1/books/0")))
                .await;
            assert_eq!(answer.status, 200, "{version}");
            assert_eq!(answer.field("grpc-status"), "5", "{version}");
            let request = Request::post("/trilane.library.v1.Library/Burn")
                .header("content-type", "application/grpc-web");
            let answer = client.send(request, framed(&get(""))).await;
            assert_eq!(answer.field("grpc-status"), "12", "{version}");
        }
    });
}

#[test]
fn methods_have_paths_without_a_rule() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let json = |path: &str| Request::post(path).header("content-type", "application/json");
            let answer = client
                .send(json(PATH), r#"{"name":"shelves/3/books/90"}"#)
                .await;
            assert_eq!(answer.json()["title"], "Book 90 of shelf 3", "{version}");
            let binary = Request::post(PATH).header("content-type", "application/protobuf");
            let answer = client
                .send(binary, get("shelves/3/books/90").encode_to_vec())
                .await;
            assert_eq!(Book::decode(answer.body).unwrap(), expected(), "{version}");
            let answer = client
                .send(json("/trilane.library.v1.Library/Burn"), "{}")
                .await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["code"].as_u64()),
                (404, Some(5))
            );
        }
    });
}

#[test]
fn a_unary_call_has_one_message() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let message = framed(&get("shelves/1/books/1"));
            let twice = [&message[..], &message[..]].concat();
            let request = Request::post(PATH).header("content-type", "application/grpc-web");
            let answer = client.send(request, twice.clone()).await;
            assert_eq!(answer.field("grpc-status"), "12", "{version} {answer:?}");
            if !WITH_TRAILERS.contains(&version) {
                continue;
            }
            let mut channel = Channel::connect(&target, version).await;
            let request = Request::post(PATH)
                .header("content-type", "application/grpc")
                .body(Body::new(Full::new(twice.into())))
                .unwrap();
            let response = channel.send(request).await.unwrap();
            assert_eq!(response.headers()["grpc-status"], "12", "{version}");
        }
    });
}

#[test]
fn content_in_another_coding_than_gzip_is_refused() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let request = Request::post("/v1/shelves/1/books")
                .header("content-type", "application/json")
                .header("content-encoding", "br");
            let answer = client.send(request, "{}").await;
            assert_eq!(
                (answer.status.as_u16(), answer.field("accept-encoding")),
                (415, "gzip"),
                "{version}"
            );
            assert!(answer.json()["message"].as_str().unwrap().contains("gzip"));
        }
    });
}

#[test]
fn what_is_no_call_is_refused_by_http() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
            let reflection = client.send(Request::post(reflection), "x").await;
            assert_eq!(reflection.status, 415, "{version}");
            let web = Request::post(PATH).header("content-type", "application/grpc-web+thrift");
            let web = client.send(web, "x").await;
            assert_eq!(web.status, 415, "{version}");
            let get = Request::get(PATH).header("content-type", "application/grpc");
            let get = client.send(get, "").await;
            assert_eq!(
                (get.status.as_u16(), get.field("allow")),
                (405, "POST"),
                "{version}"
            );
            if version.starts_with("h1") {
                let call = Request::post(PATH).header("content-type", "application/grpc");
                let call = client.send(call, framed(&super::grpc::get("x"))).await;
                assert_eq!(call.status, 505, "{version}");
            }
        }
    });
}
