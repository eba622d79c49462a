//! What makes the fields of a request malformed, and h3 does not see: it keeps the last of several
//! pseudo-header fields, wherever it stands, and reads no trailers that nobody asks for.
//!
//! RFC 9114 sections 4.1.2, 4.2 and 4.3. What is left of a request says the rest, over all versions alike:
//! see `app::malformed`.

use std::sync::{Arc, Mutex, PoisonError};

use trilane_wire::{field, qpack};

use crate::connection::MAX_HEAD;

/// Longer heads are not remembered.
const REMEMBERED: usize = 2048;

/// What the request streams of one connection share.
#[derive(Clone, Default)]
pub(super) struct Heads(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    /// The last head that was sound. Clients repeat themselves, and no table stands behind the bytes: the
    /// same ones are the same head.
    last: Vec<u8>,
    /// For [`qpack::decode`].
    scratch: Vec<u8>,
}

/// Reads the field sections of one request stream.
pub(super) struct Sections {
    heads: Heads,
    /// The head has come; what comes now is trailers.
    has_head: bool,
}

impl Sections {
    pub(super) fn new(heads: Heads) -> Self {
        Self {
            heads,
            has_head: false,
        }
    }

    /// Whether h3 may have the next section. One that cannot be decoded, or is too long, h3 refuses itself.
    pub(super) fn is_sound(&mut self, section: &[u8]) -> bool {
        let is_trailers = self.has_head;
        self.has_head = true;
        let mut shared = self.heads.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_trailers && !section.is_empty() && shared.last == section {
            return true;
        }
        let mut fields = Fields::default();
        let limit = u64::from(MAX_HEAD);
        let read = qpack::decode(
            section,
            limit,
            &mut shared.scratch,
            |name, value| match fields.is_sound(name, value, is_trailers) {
                true => Ok(()),
                false => Err(Malformed),
            },
        );
        match read {
            Ok(()) if is_trailers => true,
            Ok(()) if fields.make_a_request() => {
                if section.len() <= REMEMBERED {
                    shared.last.clear();
                    shared.last.extend_from_slice(section);
                }
                true
            }
            Ok(()) | Err(qpack::DecodeError::Field(Malformed)) => false,
            Err(_) => true,
        }
    }
}

struct Malformed;

/// The fields of a section so far.
#[derive(Default)]
struct Fields {
    /// One bit for each of [`PSEUDO`].
    pseudo: u8,
    has_others: bool,
    is_connect: bool,
    /// Whether `:path` is `*`, which OPTIONS alone may have.
    is_star: bool,
    is_options: bool,
}

/// RFC 9114 section 4.3.1, and RFC 9220.
const PSEUDO: [&[u8]; 5] = [
    b":method",
    b":scheme",
    b":path",
    b":authority",
    b":protocol",
];
const METHOD: u8 = 1;
const SCHEME: u8 = 1 << 1;
const PATH: u8 = 1 << 2;
const AUTHORITY: u8 = 1 << 3;
const PROTOCOL: u8 = 1 << 4;

impl Fields {
    fn is_sound(&mut self, name: &[u8], value: &[u8], is_trailers: bool) -> bool {
        if name.first() != Some(&b':') {
            self.has_others = true;
            // Section 4.2.
            return match name {
                b"te" => value == b"trailers",
                _ => !field::is_connection_specific(name),
            };
        }
        let Some(place) = PSEUDO.iter().position(|known| *known == name) else {
            return false;
        };
        let this = 1 << place;
        if is_trailers || self.has_others || self.pseudo & this != 0 {
            return false;
        }
        self.pseudo |= this;
        match this {
            METHOD => {
                self.is_connect = value == b"CONNECT";
                self.is_options = value == b"OPTIONS";
            }
            PATH => self.is_star = value == b"*",
            _ => {}
        }
        match this {
            // What follows a # is no part of a target: http would cut it off.
            PATH => self.is_star || value.first() == Some(&b'/') && !value.contains(&b'#'),
            _ => !value.is_empty(),
        }
    }

    /// Sections 4.3.1 and 4.4, and RFC 8441 section 4, which RFC 9220 refers to.
    fn make_a_request(&self) -> bool {
        let has = |these| self.pseudo & these == these;
        match self.is_connect {
            true if !has(PROTOCOL) => self.pseudo == METHOD | AUTHORITY,
            true => has(METHOD | SCHEME | PATH | AUTHORITY),
            false => {
                has(METHOD | SCHEME | PATH) && !has(PROTOCOL) && (!self.is_star || self.is_options)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trilane_wire::request::Indexing;

    use super::*;

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes(), Indexing::Without));
        let mut out = Vec::new();
        qpack::encode(fields, &mut out);
        out
    }

    #[test]
    fn a_head_that_is_remembered_is_a_head_and_no_more() {
        let head = section(&[(":method", "GET"), (":scheme", "https"), (":path", "/")]);
        let wrong = section(&[(":method", "GET"), (":scheme", "https"), (":path", "x")]);
        let heads = Heads::default();
        let new = || Sections::new(heads.clone());
        for _ in 0..2 {
            let mut sections = new();
            assert!(sections.is_sound(&head));
            // There are no pseudo-fields in trailers.
            assert!(!sections.is_sound(&head));
            assert!(!new().is_sound(&wrong));
        }
        assert_eq!(heads.0.lock().unwrap().last, head);
        let long = "x".repeat(2 * REMEMBERED);
        let long = section(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/"),
            ("a", &long),
        ]);
        assert!(new().is_sound(&long));
        assert_eq!(
            heads.0.lock().unwrap().last,
            head,
            "what is kept is bounded"
        );
    }
}
