//! Messages between the machines of a run and the one that adds up, in frames: a length as four bytes, the least
//! significant first, of all that follows; from the relay then the number of the worker as two; the kind as one byte;
//! the rest.

use std::io::{self, Read, Write};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

/// Kind and rest of a frame may be so long, in bytes.
pub(super) const MOST: usize = 64 << 20;
/// Frames that wait for a reader who is slow.
const WAITING: usize = 64;
/// How long the last ones wait for a reader.
const PATIENCE: Duration = Duration::from_secs(30);

/// The members of the run: the first frame that whoever adds up gets.
pub(super) const MEMBERS: u8 = b'B';
/// The threads of a worker have begun.
pub(super) const STARTED: u8 = b'S';
/// Windows of a worker.
pub(super) const WINDOWS: u8 = b'W';
/// The reports of a worker, its last frame.
pub(super) const REPORTS: u8 = b'R';
/// A worker has failed: its last frame.
pub(super) const ERROR: u8 = b'E';
/// The relay has lost a worker.
pub(super) const LOST: u8 = b'L';

/// A message, as the relay passes it on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) worker: usize,
    pub(super) kind: u8,
    pub(super) rest: Vec<u8>,
}

/// Reads the next frame from the relay; none at the end.
pub(super) fn read(stream: &mut impl Read) -> Result<Option<Frame>, String> {
    let cut = || "the messages of the workers end in the middle of one".to_owned();
    let broken = |error: io::Error| format!("the messages of the workers cannot be read: {error}");
    let mut head = Vec::with_capacity(4);
    stream
        .by_ref()
        .take(4)
        .read_to_end(&mut head)
        .map_err(broken)?;
    let length = match <[u8; 4]>::try_from(&head[..]) {
        Ok(length) => u32::from_le_bytes(length) as usize,
        Err(_) if head.is_empty() => return Ok(None),
        Err(_) => return Err(cut()),
    };
    if !(3..=MOST + 2).contains(&length) {
        return Err(format!(
            "a message of the workers has {length} bytes, and 3 to {} are taken",
            MOST + 2
        ));
    }
    // Grows with what comes, and not by what the length says.
    let mut bytes = Vec::new();
    stream
        .by_ref()
        .take(length as u64)
        .read_to_end(&mut bytes)
        .map_err(broken)?;
    if bytes.len() < length {
        return Err(cut());
    }
    let worker = u16::from_le_bytes([bytes[0], bytes[1]]).into();
    let kind = bytes[2];
    bytes.drain(..3);
    Ok(Some(Frame {
        worker,
        kind,
        rest: bytes,
    }))
}

/// Writes frames to stdout from a thread of its own, so that a slow reader holds up no thread of the load.
pub(super) struct Frames {
    frames: SyncSender<(u8, Vec<u8>)>,
    done: Receiver<io::Result<()>>,
}

impl Frames {
    pub(super) fn start() -> Result<Self, String> {
        let (frames, to_write) = sync_channel::<(u8, Vec<u8>)>(WAITING);
        let (tell, done) = channel();
        thread::Builder::new()
            .name("frames".into())
            .spawn(move || {
                let mut stdout = io::stdout().lock();
                let written = to_write
                    .iter()
                    .try_for_each(|(kind, rest)| write(&mut stdout, kind, &rest));
                // Whoever waits for it may have lost patience.
                let _ = tell.send(written);
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { frames, done })
    }

    /// Sends a frame, where its reader is not so far behind that memory would run out.
    pub(super) fn send(&self, kind: u8, rest: Vec<u8>) -> Result<(), String> {
        if rest.len() >= MOST {
            return Err(format!(
                "a message of {} bytes is more than the {MOST} that may be sent",
                rest.len()
            ));
        }
        self.frames.try_send((kind, rest)).map_err(|error| {
            match error {
                TrySendError::Full(_) => "nobody takes what this worker sends",
                TrySendError::Disconnected(_) => "whoever took what this worker sends has gone",
            }
            .to_owned()
        })
    }

    /// Sends the last frame, and waits until all have been written.
    pub(super) fn finish(self, kind: u8, rest: Vec<u8>) -> Result<(), String> {
        let limit = Instant::now() + PATIENCE;
        let slow = || format!("nobody took what this worker sent for {PATIENCE:?}");
        if rest.len() >= MOST {
            return self.send(kind, rest);
        }
        let mut last = (kind, rest);
        while let Err(error) = self.frames.try_send(last) {
            last = match error {
                TrySendError::Full(frame) if Instant::now() < limit => frame,
                TrySendError::Full(_) => return Err(slow()),
                TrySendError::Disconnected(_) => break,
            };
            thread::sleep(Duration::from_millis(10));
        }
        drop(self.frames);
        match self
            .done
            .recv_timeout(limit.saturating_duration_since(Instant::now()))
        {
            Ok(written) => written
                .map_err(|error| format!("what this worker sends cannot be written: {error}")),
            Err(RecvTimeoutError::Timeout) => Err(slow()),
            Err(RecvTimeoutError::Disconnected) => {
                Err("the thread that writes has ended".to_owned())
            }
        }
    }
}

fn write(stream: &mut impl Write, kind: u8, rest: &[u8]) -> io::Result<()> {
    let length = (rest.len() + 1) as u32;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(&[kind])?;
    stream.write_all(rest)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as the relay writes it.
    fn relayed(worker: u16, kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = (3 + rest.len()) as u32;
        let worker = worker.to_le_bytes();
        [&length.to_le_bytes()[..], &worker, &[kind], rest].concat()
    }

    #[test]
    fn frames_are_read_one_after_the_other() {
        let bytes = [relayed(3, WINDOWS, b"abc"), relayed(0, LOST, b"")].concat();
        let mut stream = &bytes[..];
        let frame = |worker, kind, rest: &[u8]| Frame {
            worker,
            kind,
            rest: rest.to_vec(),
        };
        assert_eq!(read(&mut stream), Ok(Some(frame(3, WINDOWS, b"abc"))));
        assert_eq!(read(&mut stream), Ok(Some(frame(0, LOST, b""))));
        assert_eq!(read(&mut stream), Ok(None));
    }

    #[test]
    fn a_frame_that_is_cut_or_too_long_is_an_error() {
        let whole = relayed(3, WINDOWS, b"abc");
        for cut in 1..whole.len() {
            let told = read(&mut &whole[..cut]).unwrap_err();
            assert!(told.contains("in the middle"), "{cut}: {told}");
        }
        for length in [0, 2, (MOST + 3) as u32, u32::MAX] {
            // What is announced is not waited for, nor is there room made for it.
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend([0; 8]);
            let told = read(&mut &bytes[..]).unwrap_err();
            assert!(told.contains(&format!("{length} bytes")), "{told}");
        }
        let told = read(&mut &(MOST as u32).to_le_bytes()[..]).unwrap_err();
        assert!(told.contains("in the middle"), "{told}");
    }

    #[test]
    fn what_is_written_has_its_length_before_it() {
        let mut bytes = Vec::new();
        write(&mut bytes, STARTED, b"{}").unwrap();
        assert_eq!(bytes, b"\x03\0\0\0S{}");
    }
}
