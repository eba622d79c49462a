//! The library service through tonic's client, over every version with trailers.

use futures_util::{StreamExt, stream};
use http::Request;
use http_body_util::BodyExt;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, body::Body, codec::CompressionEncoding::Gzip};

use crate::{
    channel::{
        Channel, WITH_TRAILERS,
        proto::{
            Book, CreateBookRequest, DeleteBookRequest, Edition, GetBookRequest, ListBooksRequest,
            UpdateBookRequest, WatchBooksRequest, edition::Format, list_books_request::Filter,
            watch_books_response::Change,
        },
    },
    common::{run, start},
};

/// Runs a check with a fresh connection of every version.
macro_rules! over_versions_with_trailers {
    ($($name:ident($library:ident, $target:ident, $version:ident) $body:block)*) => {$(
        #[test]
        fn $name() {
            for $version in WITH_TRAILERS {
                let $target = start();
                run(async {
                    #[allow(unused_mut, unused_variables)]
                    let mut $library = Channel::library(&$target, $version).await;
                    $body
                });
            }
        }
    )*};
}

pub(crate) fn get(name: &str) -> GetBookRequest {
    GetBookRequest { name: name.into() }
}

fn titled(title: &str) -> Book {
    Book {
        title: title.into(),
        ..Book::default()
    }
}

fn create(parent: &str, title: &str) -> CreateBookRequest {
    CreateBookRequest {
        parent: parent.into(),
        book: Some(titled(title)),
    }
}

fn watch(parent: &str) -> WatchBooksRequest {
    WatchBooksRequest {
        parent: parent.into(),
        ..WatchBooksRequest::default()
    }
}

/// A message with its gRPC prefix.
pub(crate) fn framed(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

over_versions_with_trailers! {
    a_book_is_the_prescribed_one(library, target, version) {
        let response = library.get_book(get("shelves/3/books/90")).await.unwrap();
        assert_eq!(response.metadata().get("server").unwrap(), trilane_serve::SERVER_NAME);
        let book = response.into_inner();
        assert_eq!(book.title, "Book 90 of shelf 3", "{version}");
        assert_eq!((book.author.as_str(), book.pages, book.read), ("Author 14", 190, true));
    }

    statuses_name_what_is_wrong(library, target, version) {
        for (name, code) in [
            ("shelves/1/books/101", Code::NotFound),
            ("shelves/11/books/1", Code::NotFound),
            ("shelves/1", Code::InvalidArgument),
            ("shelves/1/books/é", Code::InvalidArgument),
            ("", Code::InvalidArgument),
        ] {
            let status = library.get_book(get(name)).await.unwrap_err();
            assert_eq!(status.code(), code, "{version} {name}");
            assert!(status.message().contains(name), "{version} {status}");
        }
        for request in [
            ListBooksRequest { page_size: -1, parent: "shelves/1".into(), ..Default::default() },
            ListBooksRequest { page_token: "x".into(), parent: "shelves/1".into(), ..Default::default() },
        ] {
            let status = library.list_books(request).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{version}");
        }
        for request in [
            WatchBooksRequest { count: -1, ..watch("shelves/1") },
            WatchBooksRequest { interval: Some(prost_types::Duration { seconds: -1, nanos: 0 }), ..watch("shelves/1") },
        ] {
            let status = library.watch_books(request).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{version}");
        }
    }

    lists_come_in_pages_and_through_filters(library, target, version) {
        let mut request = ListBooksRequest { parent: "shelves/2".into(), page_size: 30, ..Default::default() };
        let mut names = Vec::new();
        let mut sizes = Vec::new();
        loop {
            let page = library.list_books(request.clone()).await.unwrap().into_inner();
            sizes.push(page.books.len());
            names.extend(page.books.into_iter().map(|book| book.name));
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        assert_eq!(sizes, [30, 30, 30, 10], "{version}");
        assert_eq!(names[99], "shelves/2/books/100");
        for (page_size, expected) in [(0, 20), (1000, 100)] {
            let request = ListBooksRequest { parent: "shelves/2".into(), page_size, ..Default::default() };
            assert_eq!(library.list_books(request).await.unwrap().into_inner().books.len(), expected);
        }
        let filter = Filter {
            authors: vec!["Author 15".into(), "Author 16".into()],
            read: Some(true),
            min_pages: 103,
        };
        let request = ListBooksRequest { parent: "shelves/2".into(), page_size: 100, filter: Some(filter), ..Default::default() };
        let page = library.list_books(request).await.unwrap().into_inner();
        // (14 + b) mod 97 is 15 for 1 and 98, 16 for 2 and 99: only 98 and 2 are even, and 2 has 102 pages.
        let names: Vec<_> = page.books.iter().map(|book| book.name.as_str()).collect();
        assert_eq!(names, ["shelves/2/books/98"], "{version}");
        assert_eq!(page.next_page_token, "");
    }

    books_are_created_changed_and_removed(library, target, version) {
        let book = library.create_book(create("shelves/4", "New")).await.unwrap().into_inner();
        assert_eq!(book.name, "shelves/4/books/101", "{version}");
        let update = UpdateBookRequest {
            book: Some(Book {
                name: book.name.clone(),
                author: "ignored".into(),
                pages: 7,
                edition: Some(Edition { year: 1999, publisher: "ignored".into(), format: Format::Hardback.into() }),
                ..Book::default()
            }),
            update_mask: Some(prost_types::FieldMask { paths: vec!["pages".into(), "edition.year".into()] }),
        };
        let book = library.update_book(update.clone()).await.unwrap().into_inner();
        assert_eq!((book.title.as_str(), book.author.as_str(), book.pages), ("New", "", 7));
        assert_eq!(book.edition, Some(Edition { year: 1999, ..Edition::default() }));
        let book = library
            .update_book(UpdateBookRequest { update_mask: None, ..update.clone() })
            .await.unwrap().into_inner();
        assert_eq!((book.title.as_str(), book.author.as_str()), ("", "ignored"), "all fields");
        let mask = prost_types::FieldMask { paths: vec!["colour".into()] };
        let status = library
            .update_book(UpdateBookRequest { update_mask: Some(mask), ..update })
            .await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("colour"), "{status}");
        let name = DeleteBookRequest { name: book.name.clone() };
        library.delete_book(name.clone()).await.unwrap();
        assert_eq!(library.delete_book(name).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(library.get_book(get(&book.name)).await.unwrap_err().code(), Code::NotFound);
    }

    watching_counts_and_begins_anew(library, target, version) {
        for (count, expected) in [(3, 3), (250, 250), (0, 100)] {
            let request = WatchBooksRequest { count, ..watch("shelves/5") };
            let stream = library.watch_books(request).await.unwrap().into_inner();
            let all: Vec<_> = stream.map(Result::unwrap).collect().await;
            assert_eq!(all.len(), expected, "{version} {count}");
            assert!(all.iter().all(|one| one.change() == Change::Present));
            let last = all.last().unwrap().book.as_ref().unwrap();
            assert_eq!(last.name, format!("shelves/5/books/{}", (expected - 1) % 100 + 1));
        }
    }

    followers_hear_of_changes(library, target, version) {
        let request = WatchBooksRequest { follow: true, count: 103, ..watch("shelves/6") };
        let mut stream = library.watch_books(request).await.unwrap().into_inner();
        for _ in 0..100 {
            stream.message().await.unwrap().unwrap();
        }
        let book = library.create_book(create("shelves/6", "Heard of")).await.unwrap().into_inner();
        library.create_book(create("shelves/7", "Another shelf")).await.unwrap();
        library.update_book(UpdateBookRequest { book: Some(book.clone()), update_mask: None }).await.unwrap();
        library.delete_book(DeleteBookRequest { name: book.name.clone() }).await.unwrap();
        for change in [Change::Created, Change::Updated, Change::Deleted] {
            let heard = stream.message().await.unwrap().unwrap();
            assert_eq!(heard.change(), change, "{version}");
            assert_eq!(heard.book.unwrap().name, book.name, "{version}");
        }
        assert_eq!(stream.message().await.unwrap(), None, "{version}: the count is full");
    }

    imports_are_counted(library, target, version) {
        let requests = (0..500).map(|n| create("shelves/8", &format!("Import {n}")));
        let response = library.import_books(stream::iter(requests)).await.unwrap();
        assert_eq!(response.into_inner().created, 500, "{version}");
        let last = library.get_book(get("shelves/8/books/600")).await.unwrap().into_inner();
        assert_eq!(last.title, "Import 499");
        let bad = stream::iter([create("shelves/8", "Good"), create("shelves/99", "Bad")]);
        assert_eq!(library.import_books(bad).await.unwrap_err().code(), Code::NotFound);
    }

    look_ups_play_ping_pong_while_the_request_is_open(library, target, version) {
        let (sender, receiver) = mpsc::channel(1);
        sender.send(get("shelves/1/books/1")).await.unwrap();
        let mut books = library.look_up_books(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        for number in 1..=50 {
            let book = books.message().await.unwrap().unwrap();
            assert_eq!(book.name, format!("shelves/1/books/{number}"), "{version}");
            let next = get(&format!("shelves/1/books/{}", number + 1));
            sender.send(next).await.unwrap();
        }
        assert_eq!(books.message().await.unwrap().unwrap().name, "shelves/1/books/51");
        sender.send(get("shelves/1/books/1000")).await.unwrap();
        assert_eq!(books.message().await.unwrap_err().code(), Code::NotFound, "{version}");
    }

    look_ups_end_with_the_request(library, target, version) {
        let requests = stream::iter([get("shelves/1/books/9"), get("shelves/9/books/1")]);
        let books = library.look_up_books(requests).await.unwrap().into_inner();
        let names: Vec<_> = books.map(|book| book.unwrap().name).collect().await;
        assert_eq!(names, ["shelves/1/books/9", "shelves/9/books/1"], "{version}");
    }

    deadlines_end_streams_and_calls(library, target, version) {
        let mut request = tonic::Request::new(WatchBooksRequest { follow: true, ..watch("shelves/1") });
        request.metadata_mut().insert("grpc-timeout", "1S".parse().unwrap());
        let mut stream = library.watch_books(request).await.unwrap().into_inner();
        let mut count = 0;
        let status = loop {
            match stream.message().await {
                Ok(message) => count += usize::from(message.is_some()),
                Err(status) => break status,
            }
        };
        assert_eq!((status.code(), count), (Code::DeadlineExceeded, 100), "{version}");
        // The request never ends, so the call has no answer by then.
        let mut request = tonic::Request::new(stream::pending::<CreateBookRequest>());
        request.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
        let status = library.import_books(request).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{version}");
        let mut request = tonic::Request::new(get("shelves/1/books/1"));
        request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
        let status = library.get_book(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{version}");
        assert!(status.message().contains("soon"), "{status}");
    }

    messages_of_four_mebibytes_are_the_limit(library, target, version) {
        let name = "shelves/1/books/1".to_owned() + &"0".repeat(4 << 20);
        let status = library.get_book(get(&name)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{version} {status}");
        let status = library.get_book(get(&name[..4 << 20 >> 1])).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{version}: below the limit");
    }

    gzip_is_answered_with_gzip(library, target, version) {
        let message = {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut packed, &get("shelves/1/books/1").encode_to_vec()).unwrap();
            packed.finish().unwrap()
        };
        let content = [&[1, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat();
        let mut channel = Channel::connect(&target, version).await;
        let request = Request::post("/trilane.library.v1.Library/GetBook")
            .header("content-type", "application/grpc+proto")
            .header("grpc-encoding", "gzip")
            .header("grpc-accept-encoding", "identity, gzip")
            .body(Body::new(http_body_util::Full::from(content))).unwrap();
        let response = channel.send(request).await.unwrap();
        assert_eq!(response.headers()["grpc-encoding"], "gzip", "{version}");
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0", "{version}");
        assert_eq!(collected.to_bytes()[0], 1, "{version}: the message is compressed");

        // Who only announces gzip, as many clients do, is not made to pay for it.
        let mut plain = library.clone().accept_compressed(Gzip);
        let book = plain.get_book(get("shelves/1/books/1")).await.unwrap();
        assert!(!book.metadata().contains_key("grpc-encoding"), "{version}");

        let mut library = library.send_compressed(Gzip).accept_compressed(Gzip);
        let book = library.get_book(get("shelves/1/books/1")).await.unwrap().into_inner();
        assert_eq!(book.title, "Book 1 of shelf 1", "{version}");
    }

    unknown_methods_are_unimplemented(library, target, version) {
        let mut channel = Channel::connect(&target, version).await;
        for path in [
            "/trilane.library.v1.Library/Burn",
            "/trilane.library.v2.Library/GetBook",
            "/grpc.nothing.Here/At",
            "/a.B/C",
        ] {
            let request = Request::post(path)
                .header("content-type", "application/grpc")
                .body(Body::new(http_body_util::Full::from(framed(&get(""))))).unwrap();
            let response = channel.send(request).await.unwrap();
            assert_eq!(response.status(), 200, "{version} {path}");
            assert_eq!(response.headers()["grpc-status"], "12", "{version} {path}");
        }
    }

    health_is_told(library, target, version) {
        use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
        let mut health = HealthClient::new(Channel::connect(&target, version).await);
        for service in ["", "trilane.library.v1.Library"] {
            let request = HealthCheckRequest { service: service.into() };
            let status = health.check(request).await.unwrap().into_inner().status;
            assert_eq!(status, 1, "{version} {service}: SERVING");
        }
        let request = HealthCheckRequest { service: "nothing".into() };
        assert_eq!(health.check(request).await.unwrap_err().code(), Code::NotFound);
    }

    reflection_tells_the_services_and_the_files(library, target, version) {
        // Both versions have the same messages.
        macro_rules! ask {
            ($module:ident) => {{
                use tonic_reflection::pb::$module::{
                    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                    server_reflection_request::MessageRequest,
                    server_reflection_response::MessageResponse,
                };
                let gzip = tonic::codec::CompressionEncoding::Gzip;
                let mut client = ServerReflectionClient::new(Channel::connect(&target, version).await)
                    .send_compressed(gzip)
                    .accept_compressed(gzip);
                let questions = [
                    MessageRequest::ListServices(String::new()),
                    MessageRequest::FileContainingSymbol("trilane.library.v1.Library".into()),
                ]
                .map(|question| ServerReflectionRequest {
                    host: String::new(),
                    message_request: Some(question),
                });
                let answers = client.server_reflection_info(stream::iter(questions)).await.unwrap();
                let answers: Vec<_> = answers.into_inner().map(Result::unwrap).collect().await;
                let Some(MessageResponse::ListServicesResponse(list)) = &answers[0].message_response else {
                    panic!("{version} {answers:?}");
                };
                let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
                assert!(names.contains(&"trilane.library.v1.Library"), "{version} {names:?}");
                assert!(names.contains(&"grpc.health.v1.Health"), "{version} {names:?}");
                let Some(MessageResponse::FileDescriptorResponse(files)) = &answers[1].message_response else {
                    panic!("{version} {answers:?}");
                };
                let file = prost_types::FileDescriptorProto::decode(&*files.file_descriptor_proto[0]).unwrap();
                assert_eq!(file.name(), "trilane/library/v1/library.proto", "{version}");
            }};
        }
        ask!(v1);
        ask!(v1alpha);
    }
}
