//! What travels.

/// An IP packet, wherever its bytes are.
pub trait Packet: Clone {
    /// Bytes of the packet, its IP header among them: what the link takes time for.
    fn size(&self) -> usize;

    /// The packet itself, to be damaged.
    fn bytes(&mut self) -> &mut [u8];
}

impl Packet for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}
