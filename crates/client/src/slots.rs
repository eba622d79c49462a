//! The requests of one connection, and what has arrived for them.

use std::mem;
use std::thread::Thread;
use std::time::{Duration, Instant};

use trilane_wire::{ErrorKind, Events, FieldList, Fields, Head, StreamError, StreamId, h1, h2, h3};

use crate::{Error, Kind};

/// What a stream may receive before its reader has taken anything, beside [`PAUSE_AT`]: what the
/// peer may send unasked, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 1 << 20;
/// A response of which this much is unread is not read on, in bytes.
pub(crate) const PAUSE_AT: usize = 256 * 1024;
/// The same, while the one who should read it waits to write, in bytes.
pub(crate) const PAUSE_WRITER_AT: usize = 64 << 20;
/// Content of a request that waits to be sent: a writer waits while there is more, in bytes.
pub(crate) const UPLOAD_LIMIT: usize = 256 * 1024;
/// Informational responses that are kept.
const INFORMATIONAL: usize = 16;
/// A request that is given up after it was waited for so long, in which nothing came on its connection,
/// raises the question whether the peer is there. Who gives up sooner does not know either.
const UNHEARD: Duration = Duration::from_millis(100);
/// Bytes of the words of a GOAWAY that are kept.
const FAREWELL: usize = 256;
/// Memory that a place keeps for the next response, in bytes.
const KEPT: usize = 16 * 1024;

/// What an event loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The final response head.
    Head,
    /// A byte of content, or its end.
    Data,
    /// The end of the response.
    End,
    /// The end of a response that is short by its `content-length`, the final head of any other.
    Whole,
    /// Room for more content of the request.
    Writable,
    /// One more informational response, or the final head.
    Informational,
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Head,
    /// So many bytes, or the end.
    Data(usize),
    End,
    Whole,
    Writable,
    /// More informational responses than this, or the final head.
    Informational(usize),
}

/// A thread or an event loop that waits for one request.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) want: Want,
    /// The thread; an event loop where there is none.
    pub(crate) thread: Option<Thread>,
}

/// The content of a request that is handed over piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    /// Bytes that were announced and not yet handed over.
    pub(crate) announced: Option<u64>,
    pub(crate) pending: Vec<u8>,
    pub(crate) sent: usize,
    /// The trailers, once no more content will come.
    pub(crate) finish: Option<FieldList>,
    /// Whether the peer still takes content.
    pub(crate) open: bool,
}

/// When what came of a request, and how much content went and came.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When it was handed to the connection.
    began: Instant,
    /// The final response head.
    head: Option<Instant>,
    /// The end of the response, or of the request in an error.
    end: Option<Instant>,
    /// Bytes of content that were handed over to be sent.
    pub sent: u64,
    /// Bytes of content that have come, as they were sent, without their framing.
    pub received: u64,
}

impl Times {
    /// The clock of a request begins, with so much content.
    pub(crate) fn begin(content: u64) -> Self {
        Self {
            began: Instant::now(),
            head: None,
            end: None,
            sent: content,
            received: 0,
        }
    }

    /// From the beginning to the final response head.
    pub fn to_head(&self) -> Option<Duration> {
        Some(self.head?.saturating_duration_since(self.began))
    }

    /// From the beginning to the end.
    pub fn to_end(&self) -> Option<Duration> {
        Some(self.end?.saturating_duration_since(self.began))
    }
}

/// One request and its response.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) live: bool,
    /// Whether it has not been sent, and waits for the peer's SETTINGS.
    pub(crate) held: bool,
    /// The identifier on the wire; 0 while it is held.
    pub(crate) number: u64,
    /// Where that was asked for.
    pub(crate) times: Option<Box<Times>>,
    pub(crate) status: Option<u16>,
    pub(crate) fields: FieldList,
    pub(crate) reason: Vec<u8>,
    pub(crate) http_1_0: bool,
    pub(crate) content_length: Option<u64>,
    pub(crate) informational: Vec<(u16, FieldList)>,
    pub(crate) body: Vec<u8>,
    /// How much of `body` has been taken.
    pub(crate) taken: usize,
    pub(crate) trailers: Option<FieldList>,
    pub(crate) ended: bool,
    pub(crate) error: Option<Error>,
    pub(crate) paused: bool,
    /// Whether a thread waits for the server to take content, which the server may not do before its
    /// answer is taken: an echo.
    pub(crate) writing: bool,
    pub(crate) upload: Option<Box<Upload>>,
    /// Who waits for something of the response, and beside it who waits to write: one thread may read
    /// what comes while another sends.
    pub(crate) reader: Option<Waiting>,
    pub(crate) writer: Option<Waiting>,
    /// Since when somebody has waited for it without getting what was waited for.
    pub(crate) asked: Option<Instant>,
    /// When something of its response came last; before that when it was submitted.
    pub(crate) came: Option<Instant>,
}

impl Slot {
    pub(crate) fn unread(&self) -> usize {
        self.body.len() - self.taken
    }

    pub(crate) fn id(&self, slot: u32) -> StreamId {
        StreamId {
            number: self.number,
            slot,
        }
    }

    /// The identifier on the wire, once there is one.
    pub(crate) fn on_the_wire(&self) -> Option<u64> {
        (!self.held).then_some(self.number)
    }

    /// Whether a waiter has what it waits for, or will never have it.
    pub(crate) fn met(&self, want: Want) -> bool {
        let over = self.ended || self.error.is_some();
        match want {
            Want::Head => self.status.is_some() || over,
            Want::Data(least) => self.unread() >= least || over,
            Want::End => over,
            Want::Whole => over || (self.status.is_some() && !self.is_short()),
            Want::Informational(seen) => {
                self.informational.len() > seen || self.status.is_some() || over
            }
            Want::Writable => match &self.upload {
                Some(upload) if upload.open => {
                    upload.pending.len() - upload.sent < UPLOAD_LIMIT || over
                }
                _ => true,
            },
        }
    }

    /// Whether all of the content can be unread without a pause.
    fn is_short(&self) -> bool {
        self.content_length
            .is_some_and(|length| length < PAUSE_AT as u64)
    }

    fn mark_end(&mut self) {
        if let Some(times) = &mut self.times {
            times.end = Some(Instant::now());
        }
    }

    /// How much may be unread before no more is taken from the peer.
    pub(crate) fn limit(&self) -> usize {
        // Whoever waits for the end takes all of it at once.
        if self
            .reader
            .as_ref()
            .is_some_and(|one| one.want == Want::End)
        {
            return usize::MAX;
        }
        if self.writing || self.writer.is_some() {
            return PAUSE_WRITER_AT;
        }
        PAUSE_AT
    }

    /// The place of whoever waits for this.
    pub(crate) fn waiting(&mut self, want: Want) -> &mut Option<Waiting> {
        match want {
            Want::Writable => &mut self.writer,
            _ => &mut self.reader,
        }
    }

    /// Takes up to `most` bytes of content.
    pub(crate) fn take(&mut self, most: usize) -> Vec<u8> {
        let length = self.unread().min(most);
        if self.taken == 0 && length == self.body.len() {
            return mem::take(&mut self.body);
        }
        let piece = self.body[self.taken..self.taken + length].to_vec();
        self.skip(length);
        piece
    }

    /// Copies content into `buffer` and says how much.
    pub(crate) fn copy(&mut self, buffer: &mut [u8]) -> usize {
        self.lend(buffer.len(), |content| {
            buffer[..content.len()].copy_from_slice(content);
            content.len()
        })
    }

    /// Lends up to `most` bytes of content, which then count as taken.
    pub(crate) fn lend<R>(&mut self, most: usize, read: impl FnOnce(&[u8]) -> R) -> R {
        let length = self.unread().min(most);
        let given = read(&self.body[self.taken..self.taken + length]);
        self.skip(length);
        given
    }

    fn skip(&mut self, length: usize) {
        self.taken += length;
        if self.taken == self.body.len() {
            self.body.clear();
            self.taken = 0;
        } else if self.taken > PAUSE_AT {
            self.body.drain(..self.taken);
            self.taken = 0;
        }
    }
}

/// All requests of a connection, by the index that the codec hands back.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Those that an event loop waits for and whose time has come.
    pub(crate) ready: Vec<u32>,
    /// Those that have more unread content than they should.
    pub(crate) full: Vec<u32>,
    /// Those that have content to send.
    pub(crate) uploading: Vec<u32>,
    /// When something came from the peer last.
    pub(crate) heard: Option<Instant>,
    /// Why the peer takes no more requests, where it has said so: by this error code, in these words.
    farewell: Option<(u64, String)>,
}

impl Slots {
    /// A place for a request.
    pub(crate) fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        })
    }

    /// A request has been sent with this number, or is held.
    pub(crate) fn open(&mut self, slot: u32, number: Option<u64>, times: Option<Box<Times>>) {
        let place = &mut self.slots[slot as usize];
        place.times = times;
        place.live = true;
        place.held = number.is_none();
        place.number = number.unwrap_or_default();
        place.came = Some(Instant::now());
    }

    /// Whether nothing at all has come on the connection since somebody began to wait for this, for some
    /// time.
    pub(crate) fn is_unheard(&self, slot: u32) -> bool {
        let Some(asked) = self.slots[slot as usize].asked else {
            return false;
        };
        self.heard.is_none_or(|heard| heard < asked) && asked.elapsed() >= UNHEARD
    }

    /// Content of the request follows, of `announced` bytes where that is known.
    pub(crate) fn expect_upload(&mut self, slot: u32, announced: Option<u64>) {
        self.slots[slot as usize].upload = Some(Box::new(Upload {
            announced,
            open: true,
            ..Upload::default()
        }));
    }

    /// Gives back a place whose request never came to be.
    pub(crate) fn cancel_reservation(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Forgets a request and its response.
    pub(crate) fn release(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let mut old = mem::take(place);
        if old.body.capacity() <= KEPT {
            old.body.clear();
            place.body = old.body;
        }
        old.fields.clear();
        place.fields = old.fields;
        self.ready.retain(|&other| other != slot);
        self.uploading.retain(|&other| other != slot);
        self.free.push(slot);
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Requests whose response is not complete.
    pub(crate) fn open_slots(&self) -> Vec<u32> {
        let open = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.live && !slot.ended && slot.error.is_none());
        open.map(|(index, _)| index as u32).collect()
    }

    /// Ends a request by an error.
    pub(crate) fn fail(&mut self, slot: u32, error: Error) {
        let place = &mut self.slots[slot as usize];
        if !place.live || place.ended || place.error.is_some() {
            return;
        }
        let number = place.on_the_wire();
        place.mark_end();
        if let Some(upload) = &mut place.upload {
            upload.open = false;
        }
        let error = Error {
            stream_id: number,
            ..error
        };
        let error = self.with_farewell(error);
        self.get_mut(slot).error = Some(error);
        self.notify(slot);
    }

    /// The end of a connection, or of a request on it, with what the peer's GOAWAY said of it.
    pub(crate) fn with_farewell(&self, error: Error) -> Error {
        let ends = matches!(
            error.kind,
            Kind::Closed | Kind::Reset | Kind::Body | Kind::Goaway
        );
        let Some((code, words)) = self.farewell.as_ref().filter(|_| ends) else {
            return error;
        };
        // A reset has a code of its own.
        if error.code.is_some_and(|own| own != *code) {
            return error;
        }
        let said = if words.is_empty() {
            String::new()
        } else {
            format!(" and says {words}")
        };
        let message = format!(
            "{}: GOAWAY of the peer has the error code 0x{code:x}{said}",
            without_code(&error)
        );
        Error {
            code: Some(*code),
            message,
            ..error
        }
    }

    /// Why the connection was lost with which these requests have failed: HTTP/3 does not know, QUIC
    /// does.
    pub(crate) fn explain(&mut self, cause: &Error) {
        let failed = self.slots.iter_mut().filter(|slot| slot.live);
        for error in failed.filter_map(|slot| slot.error.as_mut()) {
            if error.code.is_none() && matches!(error.kind, Kind::Closed | Kind::Body) {
                error.code = cause.code;
                error.message = format!("{}: {}", error.message, cause.message);
            }
        }
    }

    /// Tells those who wait for a request, if they have what they wait for.
    #[inline]
    pub(crate) fn notify(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if let Some(want) = place.reader.as_ref().map(|one| one.want)
            && place.met(want)
        {
            let reader = place.reader.take();
            wake(reader, slot, &mut self.ready);
        }
        if place.writer.is_some() && place.met(Want::Writable) {
            let writer = place.writer.take();
            wake(writer, slot, &mut self.ready);
        }
    }
}

/// Where the codec reports to.
pub(crate) struct Sink<'a>(pub(crate) &'a mut Slots);

impl Events for Sink<'_> {
    const FIELDS: bool = true;
    const ORIGINAL_CASE: bool = true;

    fn informational(&mut self, stream: StreamId, head: Head<'_>) {
        let heard = self.0.heard;
        let slot = self.0.get_mut(stream.slot);
        slot.came = heard.or(slot.came);
        if slot.informational.len() < INFORMATIONAL {
            let mut fields = FieldList::new();
            copy(head.fields, &mut fields);
            slot.informational.push((head.status, fields));
        }
        self.0.notify(stream.slot);
    }

    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        let heard = self.0.heard;
        let slot = self.0.get_mut(stream.slot);
        slot.came = heard.or(slot.came);
        if let Some(times) = &mut slot.times {
            times.head = Some(Instant::now());
        }
        slot.status = Some(head.status);
        slot.reason.clear();
        slot.reason.extend_from_slice(head.reason);
        slot.http_1_0 = head.http_1_0;
        slot.content_length = head.content_length;
        copy(head.fields, &mut slot.fields);
        if let Some(length) = head.content_length {
            let expected = usize::try_from(length).unwrap_or(PAUSE_AT);
            slot.body.reserve(expected.min(PAUSE_AT));
        }
        self.0.notify(stream.slot);
    }

    fn data(&mut self, stream: StreamId, bytes: &[u8]) {
        let heard = self.0.heard;
        let slot = self.0.get_mut(stream.slot);
        slot.came = heard.or(slot.came);
        slot.body.extend_from_slice(bytes);
        if let Some(times) = &mut slot.times {
            times.received += bytes.len() as u64;
        }
        if !slot.paused && slot.unread() >= slot.limit() {
            slot.paused = true;
            self.0.full.push(stream.slot);
        }
        self.0.notify(stream.slot);
    }

    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>) {
        let slot = self.0.get_mut(stream.slot);
        if slot.error.is_some() {
            return;
        }
        slot.ended = true;
        slot.paused = false;
        slot.mark_end();
        let unfinished = slot.upload.as_mut().is_some_and(|upload| {
            let was_open = upload.open;
            upload.open = false;
            was_open
        });
        slot.trailers = trailers.map(|fields| {
            let mut list = FieldList::new();
            copy(fields, &mut list);
            list
        });
        if unfinished && !self.0.uploading.contains(&stream.slot) {
            self.0.uploading.push(stream.slot);
        }
        self.0.notify(stream.slot);
    }

    fn fail(&mut self, stream: StreamId, error: StreamError) {
        self.0.fail(stream.slot, error.into());
    }

    fn goaway(&mut self, code: u64, debug: &[u8]) {
        // Code 0 without words is the ordinary end, which needs no explanation.
        if code != 0 || !debug.is_empty() {
            self.0.farewell = Some((code, quoted(debug)));
        }
    }
}

/// Up to [`FAREWELL`] bytes of what a peer says, in quotes: nothing in it acts on a terminal.
fn quoted(words: &[u8]) -> String {
    if words.is_empty() {
        return String::new();
    }
    let kept = &words[..words.len().min(FAREWELL)];
    let more = if kept.len() < words.len() { "…" } else { "" };
    format!("{:?}{more}", String::from_utf8_lossy(kept))
}

/// The message of an error without the code that stands at its end.
fn without_code(error: &Error) -> &str {
    let code = error.code.map(|code| format!(" (error code 0x{code:x})"));
    code.and_then(|code| error.message.strip_suffix(&code))
        .unwrap_or(&error.message)
}

fn wake(waiting: Option<Waiting>, slot: u32, ready: &mut Vec<u32>) {
    match waiting.map(|one| one.thread) {
        Some(Some(thread)) => thread.unpark(),
        Some(None) => ready.push(slot),
        None => (),
    }
}

fn copy(from: Fields<'_>, to: &mut FieldList) {
    to.clear();
    for (name, value) in from.iter() {
        to.push(name, value);
    }
}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Self {
        Self {
            kind: kind(error.kind),
            message: told(error.kind, error.to_string()),
            stream_id: None,
            code: error.code,
            unprocessed: error.unprocessed,
        }
    }
}

/// The message of an error, with the numbers where it is about our limits: those of its version are
/// among them.
pub(crate) fn told(kind: ErrorKind, message: String) -> String {
    if kind != ErrorKind::Limit || !message.contains("limit") {
        return message;
    }
    let h1 = h1::Limits::default();
    format!(
        "{message}: it is {} KiB, {} fields and {} informational responses over HTTP/1.1, {} KiB over \
         HTTP/2, {} KiB over HTTP/3",
        h1.head_bytes / 1024,
        h1.fields,
        h1.informational,
        h2::Config::default().header_list / 1024,
        h3::Config::default().field_section / 1024,
    )
}

pub(crate) fn kind(kind: ErrorKind) -> Kind {
    match kind {
        ErrorKind::Closed => Kind::Closed,
        ErrorKind::Reset => Kind::Reset,
        ErrorKind::Goaway => Kind::Goaway,
        ErrorKind::Protocol => Kind::Protocol,
        ErrorKind::Body => Kind::Body,
        ErrorKind::Limit => Kind::Limit,
    }
}
