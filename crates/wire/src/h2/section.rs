//! The field section of a response, as the protocol sees it.

use crate::field::FieldList;
use crate::hpack::{Decoder, ENTRY_OVERHEAD, Error, Role};

/// What the fields of one block say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub(super) status: Option<u16>,
    pub(super) content_length: Option<u64>,
    /// Name + value + 4 for each field.
    pub(super) decoded_bytes: usize,
    /// Name + value + 32 for each field (RFC 9113 §6.5.2).
    pub(super) list_size: usize,
    /// Why the section is malformed.
    pub(super) fault: Option<&'static str>,
    regular: bool,
}

impl Section {
    /// Decodes a block to its end, whatever it holds, so that the table stays in step. Fields go to
    /// `fields` as long as the section is within `limit`.
    pub(super) fn decode(
        block: &[u8],
        decoder: &mut Decoder,
        limit: usize,
        mut fields: Option<&mut FieldList>,
    ) -> Result<Self, Error> {
        let mut section = Self::default();
        decoder.decode(block, |name, value, role| {
            section.add(name, value, role);
            if let Some(fields) = &mut fields
                && section.list_size <= limit
                && !matches!(role, Role::Status(_))
            {
                fields.push(name, value);
            }
        })?;
        Ok(section)
    }

    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8], role: Role) {
        let bytes = name.len() + value.len();
        self.decoded_bytes = self.decoded_bytes.saturating_add(bytes);
        self.list_size = self.list_size.saturating_add(bytes + ENTRY_OVERHEAD);
        match role {
            Role::Plain => self.regular = true,
            Role::Status(_) if self.status.is_some() => {
                self.fault = Some("a response has two :status fields");
            }
            Role::Status(_) if self.regular => {
                self.fault = Some("a pseudo-field stands behind a field");
            }
            Role::Status(status) => self.status = Some(status),
            Role::Length(length) => {
                self.regular = true;
                if self.content_length.is_some_and(|other| other != length) {
                    self.fault = Some("a response has two different content-length fields");
                }
                self.content_length = Some(length);
            }
            Role::Malformed(reason) => self.fault = Some(reason),
        }
    }
}

/// The last block that changed nothing in the table, and what it said: most responses of a server
/// under load are the same, so most blocks are compared and not decoded.
#[derive(Debug, Default)]
pub(super) struct Memo {
    block: Vec<u8>,
    generation: u64,
    section: Section,
}

impl Memo {
    const LONGEST: usize = 1024;

    #[inline]
    pub(super) fn recall(&self, block: &[u8], generation: u64) -> Option<Section> {
        (self.generation == generation && self.block == block && !block.is_empty())
            .then_some(self.section)
    }

    pub(super) fn keep(&mut self, block: &[u8], generation: u64, section: Section) {
        if block.len() <= Self::LONGEST {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.generation = generation;
            self.section = section;
        }
    }

    pub(super) fn clear(&mut self) {
        self.block.clear();
    }
}
