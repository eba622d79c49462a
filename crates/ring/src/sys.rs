//! What the kernel shares with this process.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::squeue::SubmissionQueue;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd};
use io_uring::{IoUring, Submitter, opcode};

/// What a ring of buffers begins at, in bytes.
const PAGE: usize = 4096;

/// Zeroed memory at a fixed address.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn new(bytes: usize, alignment: usize) -> io::Result<Self> {
        let layout = Layout::from_size_align(bytes.max(1), alignment)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the layout is not of size zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Ok(Self { start, layout }),
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated by `new` with this layout, and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Buffers of one size that the kernel may fill, and the ring that hands them to it
/// (IORING_REGISTER_PBUF_RING). Each buffer is either the kernel's or, since the completion that told of
/// it, ours.
#[derive(Debug)]
pub(crate) struct Shared {
    entries: Memory,
    buffers: Memory,
    count: u16,
    /// From the start of one buffer to that of the next, in bytes.
    stride: usize,
    /// Room in front of each buffer that the kernel leaves alone, in bytes.
    headroom: usize,
    /// What the kernel may write into one, in bytes.
    size: u32,
    tail: u16,
    /// Which of the buffers are ours.
    ours: Box<[bool]>,
}

impl Shared {
    /// `count`, a power of two, of buffers of `size` bytes, each behind `headroom` bytes. All are ours.
    pub(crate) fn new(count: u16, headroom: usize, size: u32) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "{count} buffers");
        // Not a multiple of a page, so that the starts of buffers do not share the same places of caches.
        let stride = (headroom + size as usize).next_multiple_of(PAGE) + 64;
        Ok(Self {
            entries: Memory::new(usize::from(count) * size_of::<BufRingEntry>(), PAGE)?,
            buffers: Memory::new(usize::from(count) * stride, PAGE)?,
            count,
            stride,
            headroom,
            size,
            tail: 0,
            ours: vec![true; count.into()].into_boxed_slice(),
        })
    }

    /// Tells the kernel of the buffers, as group `group`.
    pub(crate) fn register(&self, submitter: &Submitter<'_>, group: u16) -> io::Result<()> {
        let address = self.entries.start.as_ptr() as u64;
        // SAFETY: the memory has room for `count` entries, begins at a page and is zeroed. It outlives
        // the ring: whoever owns both drops the ring first (`crate::ring::Ring`).
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, group, 0) }
    }

    /// Whether the buffer `id` is ours.
    fn is_ours(&self, id: u16) -> bool {
        self.ours.get(usize::from(id)).copied().unwrap_or(false)
    }

    /// The kernel has filled the buffer `id`, which it was given.
    pub(crate) fn take(&mut self, id: u16) {
        assert!(id < self.count && !self.is_ours(id), "buffer {id}");
        self.ours[usize::from(id)] = true;
    }

    /// Gives the buffer `id` to the kernel. [`Self::publish`] tells it so.
    pub(crate) fn give(&mut self, id: u16) {
        assert!(self.is_ours(id), "buffer {id}");
        self.ours[usize::from(id)] = false;
        let slot = usize::from(self.tail & (self.count - 1));
        let start = usize::from(id) * self.stride + self.headroom;
        // SAFETY: the buffer lies within `buffers`, as `id` is below `count`.
        let address = unsafe { self.buffers.start.as_ptr().add(start) } as u64;
        let entries = self.entries.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `slot` is below `count`, for which `entries` has room. The kernel does not read the slot
        // before the tail has passed it: no more than `count` buffers are given at one time. The setters
        // leave the tail alone, which the kernel has put where the first entry has bytes to spare.
        let entry = unsafe { &mut *entries.add(slot) };
        entry.set_addr(address);
        entry.set_len(self.size);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets the kernel see what it has been given.
    pub(crate) fn publish(&self) {
        let entries = self.entries.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `entries` is the start of the ring, whose memory is initialised, and the tail is an
        // aligned u16 in it that the kernel only reads.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// The headroom and the first `length` bytes of the buffer `id`, which is ours.
    pub(crate) fn bytes(&mut self, id: u16, length: usize) -> &mut [u8] {
        assert!(
            self.is_ours(id) && length <= self.size as usize,
            "buffer {id}"
        );
        // SAFETY: the buffer lies within `buffers`, which was zeroed when it was made. The kernel does not
        // write to a buffer that it was not given, and `&mut self` keeps every other reference away.
        unsafe {
            let start = self
                .buffers
                .start
                .as_ptr()
                .add(usize::from(id) * self.stride);
            std::slice::from_raw_parts_mut(start, self.headroom + length)
        }
    }
}

/// What an operation asks for; none of them names memory of this process.
#[derive(Debug)]
pub(crate) enum Asked {
    /// To be told of readiness, once or each time.
    Poll { events: u32, each_time: bool },
    /// To receive into buffers of this group, until told otherwise.
    Receive { group: u16 },
    /// To end what is under way with the file descriptor.
    Cancel,
    /// To end the operation with this data.
    CancelOne { data: u64 },
}

/// Puts an operation on `fd` into the queue; false where it is full.
pub(crate) fn ask(queue: &mut SubmissionQueue<'_>, fd: RawFd, asked: &Asked, data: u64) -> bool {
    let entry = match *asked {
        Asked::Poll { events, each_time } => opcode::PollAdd::new(Fd(fd), events)
            .multi(each_time)
            .build(),
        Asked::Receive { group } => opcode::RecvMulti::new(Fd(fd), group).build(),
        Asked::Cancel => opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(fd)).all()).build(),
        Asked::CancelOne { data } => opcode::AsyncCancel::new(data).build(),
    };
    // SAFETY: the operation names no memory. What it receives goes to buffers that the kernel was given
    // (`Shared`), and the kernel checks the file descriptor.
    unsafe { queue.push(&entry.user_data(data)) }.is_ok()
}

/// Bytes that the kernel is sending.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    under_way: Vec<Option<Vec<u8>>>,
    free: Vec<u32>,
}

impl Sends {
    /// Keeps `bytes` until [`Self::end`], and says where.
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.under_way[slot as usize] = Some(bytes);
            return slot;
        }
        self.under_way.push(Some(bytes));
        self.under_way.len() as u32 - 1
    }

    /// Puts the sending of what is kept in `slot` into the queue; false where the queue is full.
    pub(crate) fn push(
        &self,
        queue: &mut SubmissionQueue<'_>,
        fd: RawFd,
        slot: u32,
        data: u64,
    ) -> bool {
        let Some(bytes) = &self.under_way[slot as usize] else {
            return true;
        };
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = opcode::Send::new(Fd(fd), bytes.as_ptr(), bytes.len() as u32)
            .flags(flags)
            .build();
        // SAFETY: the bytes are on the heap, and stay there unchanged until `end`, which is called when
        // the kernel has completed the operation (`crate::ring`), or until the ring is dropped, which
        // ends every operation first (`cancel_all`).
        unsafe { queue.push(&entry.user_data(data)) }.is_ok()
    }

    /// The kernel has completed the send of what is kept in `slot`.
    pub(crate) fn end(&mut self, slot: u32) -> Option<Vec<u8>> {
        let bytes = self.under_way.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(bytes)
    }
}

/// Ends everything under way, so that the kernel touches no memory of ours any more.
pub(crate) fn cancel_all(ring: &IoUring) {
    // That nothing is under way is an error, too.
    let _ = ring
        .submitter()
        .register_sync_cancel(None, CancelBuilder::any());
}
