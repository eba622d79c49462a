//! Where datagrams are received.

use bytes::BytesMut;

/// A receive buffer that many connections share, and that is used again without allocation.
///
/// Packets are decrypted in place and stream data is handed on where it lies, so a batch must be
/// owned by the connection for as long as data of it waits for missing data before it. Batches are
/// therefore cut off the front of one large block, which starts over when all of them are gone.
#[derive(Debug)]
pub struct ReceiveBuffer {
    block: BytesMut,
}

impl ReceiveBuffer {
    /// The largest batch: what a UDP socket with receive offload (GRO) delivers at most.
    pub const BATCH: usize = 64 * 1024;

    /// Four batches: the block is cleared once in a while and not on every read. A piece of data
    /// that waits for the one before it holds the whole block; quinn-proto copies pieces together
    /// when a stream has more than a few.
    const BLOCK: usize = 4 * Self::BATCH;

    /// An empty buffer.
    pub fn new() -> Self {
        Self {
            block: BytesMut::zeroed(Self::BLOCK),
        }
    }

    /// Room for the next batch: [`Self::BATCH`] bytes to receive into.
    pub fn space(&mut self) -> &mut [u8] {
        if self.block.len() < Self::BATCH {
            self.block.clear();
            // In place when no earlier batch is alive, else in a new block.
            self.block.reserve(Self::BLOCK);
            self.block.resize(Self::BLOCK, 0);
        }
        &mut self.block[..Self::BATCH]
    }

    /// The first `len` bytes of what was last received into [`Self::space`].
    pub fn take(&mut self, len: usize) -> BytesMut {
        self.block.split_to(len)
    }
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_starts_over_where_no_batch_is_alive() {
        let mut buffer = ReceiveBuffer::new();
        let first = buffer.space().as_ptr();
        for _ in 0..1000 {
            let space = buffer.space();
            assert_eq!(space.len(), ReceiveBuffer::BATCH);
            space[..5].copy_from_slice(b"hello");
            let batch = buffer.take(5000);
            assert_eq!(&batch[..5], b"hello");
        }
        let last = buffer.space().as_ptr() as usize;
        assert!((first as usize..first as usize + ReceiveBuffer::BLOCK).contains(&last));
    }

    #[test]
    fn a_batch_that_is_kept_is_not_written_over() {
        let mut buffer = ReceiveBuffer::new();
        buffer.space()[..4].copy_from_slice(b"kept");
        let kept = buffer.take(4);
        for _ in 0..20 {
            buffer.space().fill(0xff);
            drop(buffer.take(ReceiveBuffer::BATCH));
        }
        assert_eq!(&kept[..], b"kept");
    }
}
