use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use prost::Message as _;

use super::messages::{Answer, Failure, Files, Question, Request, Response, Service, Services};
use super::*;
use crate::schema::Imports;
use crate::status::Code;
use crate::{RpcKind, Schema};

const LIBRARY: &str = "trilane.library.v1.Library";

fn library() -> Schema {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/trilane/library/v1/library.proto");
    Schema::from_proto(&[file], &[]).unwrap()
}

/// A server of files, written by hand.
struct Server {
    files: BTreeMap<String, Vec<u8>>,
    /// Which file has a symbol.
    symbols: BTreeMap<String, String>,
    /// Whether a file comes with all that it imports.
    whole: bool,
    asked: Vec<String>,
}

impl Server {
    fn new(schema: &Schema, whole: bool) -> Self {
        let file = |service: prost_reflect::ServiceDescriptor| {
            (
                service.full_name().to_owned(),
                service.parent_file().name().to_owned(),
            )
        };
        Self {
            files: schema
                .pool()
                .files()
                .map(|file| (file.name().to_owned(), file.encode_to_vec()))
                .collect(),
            symbols: schema.pool().services().map(file).collect(),
            whole,
            asked: Vec::new(),
        }
    }

    fn described(files: &[(&str, &[&str])]) -> Self {
        let file = |&(name, imports): &(&str, &[&str])| {
            let file = Imports {
                name: name.to_owned(),
                dependency: imports.iter().map(|&name| name.to_owned()).collect(),
            };
            (name.to_owned(), file.encode_to_vec())
        };
        Self {
            files: files.iter().map(file).collect(),
            symbols: [("s.S".to_owned(), files[0].0.to_owned())].into(),
            whole: false,
            asked: Vec::new(),
        }
    }

    fn file(&self, name: &str) -> Answer {
        if !self.files.contains_key(name) {
            return error(Code::NotFound, &format!("no {name}"));
        }
        let mut names = vec![name.to_owned()];
        let mut index = 0;
        while self.whole && index < names.len() {
            for import in Imports::decode(&*self.files[&names[index]])
                .unwrap()
                .dependency
            {
                if !names.contains(&import) {
                    names.push(import);
                }
            }
            index += 1;
        }
        Answer::Files(Files {
            file: names.iter().map(|name| self.files[name].clone()).collect(),
        })
    }

    fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let request = Request::decode(message).unwrap();
        assert_eq!(request.host, "host:1");
        let answer = match request.question.unwrap() {
            Question::FileByFilename(name) => {
                self.asked.push(name.clone());
                self.file(&name)
            }
            Question::FileContainingSymbol(name) => {
                self.asked.push(name.clone());
                match self.symbols.get(&name).cloned() {
                    Some(file) => self.file(&file),
                    None => error(Code::NotFound, "no such symbol"),
                }
            }
            Question::ListServices(_) => {
                self.asked.push("*".to_owned());
                services(self.symbols.keys().map(String::as_str))
            }
        };
        encoded(answer)
    }
}

fn error(code: Code, message: &str) -> Answer {
    Answer::Error(Failure {
        code: code as i32,
        message: message.to_owned(),
    })
}

fn services<'a>(names: impl Iterator<Item = &'a str>) -> Answer {
    let service = names.map(|name| Service {
        name: name.to_owned(),
    });
    Answer::Services(Services {
        service: service.collect(),
    })
}

fn encoded(answer: Answer) -> Vec<u8> {
    Response {
        answer: Some(answer),
    }
    .encode_to_vec()
}

/// Walks to the end, and says how many calls it took.
fn walk(
    symbol: &str,
    mut answer: impl FnMut(&[u8]) -> Vec<u8>,
) -> (Result<Schema, ReflectionError>, usize) {
    let mut walk = Walk::new("host:1", symbol);
    let mut rounds = 0;
    loop {
        let requests = walk.requests();
        if requests.is_empty() {
            return (walk.finish(), rounds);
        }
        rounds += 1;
        for request in requests {
            if let Err(error) = walk.response(&answer(&request)) {
                assert_eq!(walk.requests(), Vec::<Vec<u8>>::new());
                assert_eq!(walk.response(&answer(&request)), Err(error.clone()));
                return (Err(error), rounds);
            }
        }
    }
}

fn told(symbol: &str, answer: impl FnMut(&[u8]) -> Vec<u8>) -> String {
    walk(symbol, answer).0.unwrap_err().to_string()
}

fn check(schema: &Schema) {
    let method = schema
        .method("trilane.library.v1.Library/WatchBooks")
        .unwrap();
    assert_eq!(method.kind(), RpcKind::ServerStreaming);
    assert!(method.requests(r#"{"interval": "1s"}"#).is_ok());
    let rule = schema
        .pool()
        .get_extension_by_name("google.api.http")
        .unwrap();
    let service = schema.pool().get_service_by_name(LIBRARY).unwrap();
    assert!(
        service
            .methods()
            .all(|method| method.options().has_extension(&rule))
    );
}

#[test]
fn a_server_that_sends_all_files_at_once_is_asked_once() {
    let mut server = Server::new(&library(), true);
    let (schema, rounds) = walk(LIBRARY, |message| server.answer(message));
    check(&schema.unwrap());
    assert_eq!(rounds, 1);
}

#[test]
fn a_server_that_sends_single_files_is_asked_for_each_once() {
    let mut server = Server::new(&library(), false);
    let (schema, rounds) = walk(LIBRARY, |message| server.answer(message));
    check(&schema.unwrap());
    // The symbol, its imports, http.proto and descriptor.proto of the annotations.
    assert_eq!(rounds, 3);
    assert_eq!(server.asked.len(), server.files.len());
}

#[test]
fn googles_files_may_be_missing() {
    let mut server = Server::new(&library(), false);
    server.files.retain(|name, _| !name.starts_with("google/"));
    let (schema, _) = walk(LIBRARY, |message| server.answer(message));
    check(&schema.unwrap());
}

#[test]
fn all_services_are_found_without_a_name() {
    let mut server = Server::new(&library(), true);
    // As grpc-go lists itself, and some servers what they do not describe.
    server
        .symbols
        .insert("a.Unknown".into(), "nowhere.proto".into());
    let (schema, rounds) = walk("", |message| server.answer(message));
    check(&schema.unwrap());
    assert_eq!((rounds, server.asked[0].as_str()), (2, "*"));
}

#[test]
fn an_unknown_service_is_told_with_those_there_are() {
    let mut server = Server::new(&library(), true);
    let (schema, rounds) = walk("trilane.library.Library", |message| server.answer(message));
    assert_eq!(
        schema.unwrap_err(),
        ReflectionError::Unknown(
            "the server has no service \"trilane.library.Library\": it has trilane.library.v1.Library"
                .into()
        )
    );
    assert_eq!(rounds, 2);
    let nothing = |message: &[u8]| {
        let request = Request::decode(message).unwrap();
        encoded(match request.question.unwrap() {
            Question::ListServices(_) => error(Code::Unimplemented, ""),
            _ => error(Code::NotFound, "none"),
        })
    };
    assert_eq!(
        told("a.B", nothing),
        "the server has no service \"a.B\" (NOT_FOUND, none), and lists no others"
    );
}

#[test]
fn a_status_of_the_call_is_an_answer() {
    let mut server = Server::new(&library(), true);
    let mut walk = Walk::new("host:1", "a.B");
    assert_eq!(walk.requests().len(), 1);
    walk.status(Code::NotFound, "service 'a.B' not found")
        .unwrap();
    let list = walk.requests();
    walk.response(&server.answer(&list[0])).unwrap();
    assert!(walk.requests().is_empty());
    assert!(matches!(walk.finish(), Err(ReflectionError::Unknown(text)) if text.contains(LIBRARY)));

    // What was asked after the file that is not found is asked again.
    let mut server = Server::new(&library(), false);
    let mut walk = Walk::new("host:1", LIBRARY);
    let mut rounds = 0;
    loop {
        let requests = walk.requests();
        if requests.is_empty() {
            break;
        }
        rounds += 1;
        for request in requests {
            let question = Request::decode(&*request).unwrap().question.unwrap();
            if matches!(question, Question::FileByFilename(name) if name.starts_with("google/p")) {
                walk.status(Code::NotFound, "no file").unwrap();
                break;
            }
            walk.response(&server.answer(&request)).unwrap();
        }
    }
    check(&walk.finish().unwrap());
    assert!(rounds > 4, "{rounds}");

    let mut walk = Walk::new("host:1", "a.B");
    let error = walk.status(Code::Internal, "x").unwrap_err();
    assert_eq!(error.to_string(), "the server ends a call with INTERNAL, x");
    assert!(walk.requests().is_empty());
}

#[test]
fn imports_in_a_circle_end() {
    for (circle, name) in [
        (&[("a", &["b"][..]), ("b", &["a"])][..], "a"),
        (&[("a", &["a"])], "a"),
        (&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])], "a"),
    ] {
        let mut server = Server::described(circle);
        assert_eq!(
            told("s.S", |message| server.answer(message)),
            format!("the server's files are no schema: {name} imports itself")
        );
    }
}

#[test]
fn files_without_end_are_refused() {
    let mut number = 0;
    let chain = told("s.S", |_| {
        number += 1;
        let file = Imports {
            name: format!("{}", number - 1),
            dependency: vec![format!("{number}")],
        };
        encoded(Answer::Files(Files {
            file: vec![file.encode_to_vec()],
        }))
    });
    assert_eq!(
        chain,
        "the server's files import more files after 100 rounds of questions"
    );
    let fan = told("s.S", |_| {
        let file = Imports {
            name: "a".into(),
            dependency: (0..20_000).map(|number| number.to_string()).collect(),
        };
        encoded(Answer::Files(Files {
            file: vec![file.encode_to_vec()],
        }))
    });
    assert_eq!(fan, "the server has more than 10000 files");
    let mut name = 0;
    let large = told("s.S", |_| {
        let file = (0..8).map(|_| {
            name += 1;
            Imports {
                name: format!("{name}{}", " ".repeat(8 << 20)),
                dependency: vec!["x".into()],
            }
            .encode_to_vec()
        });
        encoded(Answer::Files(Files {
            file: file.collect(),
        }))
    });
    assert_eq!(large, "the server's files are larger than 67108864 bytes");
    let many: Vec<_> = (0..20_000).map(|number| number.to_string()).collect();
    assert_eq!(
        told("", |_| encoded(services(many.iter().map(String::as_str)))),
        "the server lists more than 10000 services"
    );
}

#[test]
fn a_missing_file_is_told() {
    let mut server = Server::described(&[("a.proto", &["b.proto"])]);
    assert_eq!(
        told("s.S", |message| server.answer(message)),
        "the server does not give the file b.proto: NOT_FOUND, no b.proto"
    );
}

#[test]
fn wrong_answers_are_told() {
    let files = |file: &[u8]| {
        encoded(Answer::Files(Files {
            file: vec![file.to_vec()],
        }))
    };
    assert_eq!(
        told("a.B", |_| b"<html>".to_vec()),
        "the server's answer is no message of reflection, but 6 bytes of something else"
    );
    assert_eq!(
        told("a.B", |_| Vec::new()),
        "the server did not answer the file with a.B"
    );
    assert_eq!(
        told("a.B", |_| encoded(services([].into_iter()))),
        "the server did not answer the file with a.B"
    );
    assert_eq!(
        told("a.B", |_| encoded(Answer::Files(Files { file: vec![] }))),
        "the server gave no file for the file with a.B"
    );
    assert_eq!(
        told("a.B", |_| files(b"\xff")),
        "the server's answer to the file with a.B has a file that is no FileDescriptorProto"
    );
    assert_eq!(
        told("", |_| encoded(error(Code::PermissionDenied, "not\nyou"))),
        "the server refused the list of services: PERMISSION_DENIED, not you"
    );
    let escape = Imports {
        name: "a".into(),
        dependency: vec!["\u{1b}[31m".into()],
    };
    assert_eq!(
        told("a.B", |_| files(&escape.encode_to_vec())),
        "the server's answer to the file with a.B has files whose names are no text"
    );
    let other = Imports {
        name: "a".into(),
        dependency: vec!["b".into()],
    };
    assert_eq!(
        told("a.B", |_| files(&other.encode_to_vec())),
        "the server was asked for b and gave another file"
    );
    // A field of a type that no file has.
    let broken = b"\x0a\x01a\x22\x0e\x0a\x01M\x12\x09\x0a\x01f\x18\x01\x32\x02.X";
    let text = told("a.B", |_| files(broken));
    assert!(
        text.starts_with("the server's files are no schema: "),
        "{text}"
    );
}

#[test]
fn the_number_of_answers_must_be_that_of_the_questions() {
    let mut walk = Walk::new("host:1", "a.B");
    assert_eq!(walk.requests().len(), 1);
    assert!(walk.requests().is_empty());
    let error = walk.finish().unwrap_err().to_string();
    assert_eq!(
        error,
        "the server left a question unanswered: the file with a.B"
    );

    let mut server = Server::new(&library(), true);
    let mut walk = Walk::new("host:1", LIBRARY);
    let requests = walk.requests();
    let answer = server.answer(&requests[0]);
    walk.response(&answer).unwrap();
    let error = walk.response(&answer).unwrap_err().to_string();
    assert_eq!(error, "the server answers more than it was asked");
}

proptest! {
    #[test]
    fn any_answers_end(answers in prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            ("[ab]", prop::collection::vec("[ab]", 0..3)).prop_map(|(name, dependency)| {
                let file = Imports { name, dependency };
                encoded(Answer::Files(Files { file: vec![file.encode_to_vec()] }))
            }),
            Just(encoded(error(Code::NotFound, ""))),
        ],
        1..6,
    )) {
        let mut next = answers.iter().cycle();
        let (_, rounds) = walk("a", |_| next.next().unwrap().clone());
        prop_assert!(rounds <= 4);
    }
}
