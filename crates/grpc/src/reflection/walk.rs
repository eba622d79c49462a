//! What to ask next.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use prost::Message as _;

use super::ReflectionError;
use super::messages::{Answer, Files, Question, Request, Response, Services};
use crate::schema::Imports;
use crate::status::{self, Code};
use crate::{Schema, known, near, sound};

/// Calls that a schema may take: one for each level of imports where a server sends single files.
const MOST_ROUNDS: usize = 100;
/// Files of a schema.
const MOST_FILES: usize = 10_000;
/// Bytes of all files of a schema.
const MOST_BYTES: usize = 64 << 20;
/// Services that a server may list.
const MOST_SERVICES: usize = 10_000;

/// The questions and answers that lead to a schema.
///
/// While [`requests`](Self::requests) gives messages, send them in one call and give each response to
/// [`response`](Self::response), in order; then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Walk {
    host: String,
    symbol: String,
    /// To be asked in the next round.
    next: Vec<Question>,
    /// Asked, and not answered.
    asked: VecDeque<Question>,
    /// Files by name, encoded.
    files: HashMap<String, Vec<u8>>,
    /// Names of the files that were asked for, or will be.
    wanted: HashSet<String>,
    bytes: usize,
    rounds: usize,
    /// What the server said where it does not know the symbol.
    unknown: Option<String>,
    services: BTreeSet<String>,
    failure: Option<ReflectionError>,
}

impl Walk {
    /// `host`: the authority that is asked. `symbol`: the full name of a service; empty for all
    /// services that the server lists.
    pub fn new(host: &str, symbol: &str) -> Self {
        let first = if symbol.is_empty() {
            list_services()
        } else {
            Question::FileContainingSymbol(symbol.to_owned())
        };
        Self {
            host: host.to_owned(),
            symbol: symbol.to_owned(),
            next: vec![first],
            asked: VecDeque::new(),
            files: HashMap::new(),
            wanted: HashSet::new(),
            bytes: 0,
            rounds: 0,
            unknown: None,
            services: BTreeSet::new(),
            failure: None,
        }
    }

    /// The messages of the next call, without prefix; none when nothing is left to ask.
    pub fn requests(&mut self) -> Vec<Vec<u8>> {
        if let Some(question) = self.asked.front() {
            let text = format!("the server left a question unanswered: {}", told(question));
            self.fail(ReflectionError::Answer(text));
        }
        if self.failure.is_some() || self.next.is_empty() {
            return Vec::new();
        }
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS {
            self.fail(ReflectionError::Limit(format!(
                "the server's files import more files after {MOST_ROUNDS} rounds of questions"
            )));
            return Vec::new();
        }
        let questions = std::mem::take(&mut self.next);
        let encode = |question: &Question| {
            let request = Request {
                host: self.host.clone(),
                question: Some(question.clone()),
            };
            request.encode_to_vec()
        };
        let messages = questions.iter().map(encode).collect();
        self.asked = questions.into();
        messages
    }

    /// Takes a message of the server's, without prefix. After an error nothing more is asked.
    pub fn response(&mut self, message: &[u8]) -> Result<(), ReflectionError> {
        self.take(message)
            .inspect_err(|error| self.fail(error.clone()))
    }

    /// Takes the status that ended a call, where it is not [`Code::Ok`]: some servers answer so what
    /// they do not find, and leave what was asked after it for the next call.
    pub fn status(&mut self, code: Code, message: &str) -> Result<(), ReflectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let refused = match self.asked.pop_front() {
            Some(question) => {
                self.next.extend(self.asked.drain(..));
                self.refuse(question, code, message)
            }
            None => answer(format!("the server ends a call with {code}, {message}")),
        };
        refused.inspect_err(|error| self.fail(error.clone()))
    }

    fn fail(&mut self, error: ReflectionError) {
        self.failure.get_or_insert(error);
    }

    fn take(&mut self, message: &[u8]) -> Result<(), ReflectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let Some(question) = self.asked.pop_front() else {
            return answer("the server answers more than it was asked");
        };
        let Ok(response) = Response::decode(message) else {
            return answer(format!(
                "the server's answer is no message of reflection, but {} bytes of something else",
                message.len()
            ));
        };
        match (&question, response.answer) {
            (Question::ListServices(_), Some(Answer::Services(services))) => self.list(services),
            (
                Question::FileByFilename(_) | Question::FileContainingSymbol(_),
                Some(Answer::Files(files)),
            ) => self.add(&question, files),
            (_, Some(Answer::Error(failure))) => {
                let code = u32::try_from(failure.code).ok().and_then(Code::from_u32);
                let text = status::message(failure.message.as_bytes());
                self.refuse(question, code.unwrap_or(Code::Unknown), &text)
            }
            _ => answer(format!("the server did not answer {}", told(&question))),
        }
    }

    fn list(&mut self, services: Services) -> Result<(), ReflectionError> {
        if services.service.len() > MOST_SERVICES {
            return limit(format!(
                "the server lists more than {MOST_SERVICES} services"
            ));
        }
        let names = services.service.into_iter().map(|service| service.name);
        self.services
            .extend(names.filter(|name| sound::is_full_name(name)));
        if self.unknown.is_none() {
            let ask = |name: &String| Question::FileContainingSymbol(name.clone());
            self.next.extend(self.services.iter().map(ask));
        }
        Ok(())
    }

    fn add(&mut self, question: &Question, files: Files) -> Result<(), ReflectionError> {
        if files.file.is_empty() {
            return answer(format!("the server gave no file for {}", told(question)));
        }
        let mut imports = BTreeSet::new();
        for bytes in files.file {
            let Ok(file) = Imports::decode(&*bytes) else {
                return answer(format!(
                    "the server's answer to {} has a file that is no FileDescriptorProto",
                    told(question)
                ));
            };
            let is_text = |name: &String| !name.contains(char::is_control);
            if !is_text(&file.name) || !file.dependency.iter().all(is_text) {
                return answer(format!(
                    "the server's answer to {} has files whose names are no text",
                    told(question)
                ));
            }
            if self.files.contains_key(&file.name) {
                continue;
            }
            self.bytes += bytes.len();
            if self.bytes > MOST_BYTES {
                return limit(format!(
                    "the server's files are larger than {MOST_BYTES} bytes"
                ));
            }
            imports.extend(file.dependency);
            self.files.insert(file.name, bytes);
        }
        if let Question::FileByFilename(name) = question
            && !self.files.contains_key(name)
        {
            return answer(format!(
                "the server was asked for {name} and gave another file"
            ));
        }
        for import in imports {
            if !self.files.contains_key(&import) && self.wanted.insert(import.clone()) {
                self.next.push(Question::FileByFilename(import));
            }
        }
        if self.files.len().max(self.wanted.len()) > MOST_FILES {
            return limit(format!("the server has more than {MOST_FILES} files"));
        }
        Ok(())
    }

    /// The server answered with an error.
    fn refuse(
        &mut self,
        question: Question,
        code: Code,
        message: &str,
    ) -> Result<(), ReflectionError> {
        let said = match message {
            "" => code.to_string(),
            text => format!("{code}, {text}"),
        };
        match question {
            // Servers that were built without Google's files know them all the same.
            Question::FileByFilename(name) => match known::file(&name) {
                Some(bytes) => {
                    let question = Question::FileByFilename(name);
                    self.add(&question, Files { file: vec![bytes] })
                }
                None => answer(format!("the server does not give the file {name}: {said}")),
            },
            Question::FileContainingSymbol(name) if name == self.symbol => {
                self.unknown = Some(said);
                self.next.push(list_services());
                Ok(())
            }
            // A service of the list that reflection itself does not know.
            Question::FileContainingSymbol(_) if code == Code::NotFound => Ok(()),
            // Why the symbol is missing is already known.
            Question::ListServices(_) if self.unknown.is_some() => Ok(()),
            question => answer(format!("the server refused {}: {said}", told(&question))),
        }
    }

    /// The schema, when there is nothing left to ask.
    pub fn finish(mut self) -> Result<Schema, ReflectionError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(said) = &self.unknown {
            let symbol = &self.symbol;
            let list = near::list(symbol, self.services.iter().map(String::as_str));
            return Err(ReflectionError::Unknown(if list.is_empty() {
                format!("the server has no service {symbol:?} ({said}), and lists no others")
            } else {
                format!("the server has no service {symbol:?}: it has {list}")
            }));
        }
        if let Some(question) = self.asked.front().or(self.next.first()) {
            let text = format!("the server left a question unanswered: {}", told(question));
            return Err(ReflectionError::Answer(text));
        }
        let files = self.files.into_values().collect();
        Schema::from_sound_files(files).map_err(|reason| {
            ReflectionError::Answer(format!("the server's files are no schema: {reason}"))
        })
    }
}

fn list_services() -> Question {
    Question::ListServices(String::new())
}

fn told(question: &Question) -> String {
    match question {
        Question::FileByFilename(name) => format!("the file {name}"),
        Question::FileContainingSymbol(name) => format!("the file with {name}"),
        Question::ListServices(_) => "the list of services".to_owned(),
    }
}

fn answer<T>(text: impl Into<String>) -> Result<T, ReflectionError> {
    Err(ReflectionError::Answer(text.into()))
}

fn limit<T>(text: String) -> Result<T, ReflectionError> {
    Err(ReflectionError::Limit(text))
}
