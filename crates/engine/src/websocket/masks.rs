//! Bytes that nobody can foresee: masking keys of frames and nonces of handshakes (RFC 6455 §5.3, §4.1).

use aws_lc_rs::rand;

/// How many are drawn at a time: a call for each frame would cost more than the frame.
const POOL: usize = 4096;

/// Random bytes of one worker. Without a session it holds nothing.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    pool: Vec<u8>,
    used: usize,
}

impl Masks {
    /// The next `N` bytes.
    #[inline]
    pub(crate) fn next<const N: usize>(&mut self) -> [u8; N] {
        if self.pool.len() - self.used < N {
            self.draw();
        }
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.pool[self.used..self.used + N]);
        self.used += N;
        bytes
    }

    #[cold]
    fn draw(&mut self) {
        self.pool.resize(POOL, 0);
        rand::fill(&mut self.pool).expect("the generator of the process has been seeded");
        self.used = 0;
    }
}
