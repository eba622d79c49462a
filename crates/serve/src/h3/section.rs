//! What makes the fields of a request malformed, and h3 does not see: it keeps the last of several
//! pseudo-header fields, wherever it stands, and reads no trailers that nobody asks for.
//!
//! RFC 9114 sections 4.1.2, 4.2 and 4.3. What is left of a request says the rest, over all versions alike:
//! see `app::malformed`.

use trilane_wire::{field, qpack};

use crate::connection::MAX_HEAD;

/// Reads the field sections of one request stream.
#[derive(Default)]
pub(super) struct Sections {
    /// The head has come; what comes now is trailers.
    has_head: bool,
    scratch: Vec<u8>,
}

impl Sections {
    /// Whether h3 may have the next section. One that cannot be decoded, or is too long, h3 refuses itself.
    pub(super) fn is_sound(&mut self, section: &[u8]) -> bool {
        let mut fields = Fields::default();
        let is_trailers = self.has_head;
        self.has_head = true;
        let limit = u64::from(MAX_HEAD);
        let read = qpack::decode(
            section,
            limit,
            &mut self.scratch,
            |name, value| match fields.is_sound(name, value, is_trailers) {
                true => Ok(()),
                false => Err(Malformed),
            },
        );
        match read {
            Ok(()) => is_trailers || fields.make_a_request(),
            Err(qpack::DecodeError::Field(Malformed)) => false,
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
