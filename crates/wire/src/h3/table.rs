//! Where the requests of a connection are kept.

use super::exchange::Exchange;

/// Exchanges by stream id.
///
/// A client's ids are 0, 4, 8 and so on, and requests that are outstanding together have ids close
/// to each other, so the low bits of the id are the place: no hashing. A request that outlives many
/// others may find its place needed by a newer one, which then stands in `overflow`.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// A power of two in length, or empty.
    places: Vec<Exchange>,
    overflow: Vec<Exchange>,
    live: usize,
}

impl Table {
    const FIRST_SIZE: usize = 16;

    /// The exchange on the stream `number`.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Exchange> {
        let place = place(number, self.places.len());
        if self
            .places
            .get(place)
            .is_some_and(|exchange| exchange.number == number)
        {
            return self.places.get_mut(place);
        }
        self.overflow
            .iter_mut()
            .find(|exchange| exchange.number == number)
    }

    /// As [`Self::get_mut`], to look at.
    pub(super) fn get(&self, number: u64) -> Option<&Exchange> {
        let place = self.places.get(place(number, self.places.len()));
        place
            .into_iter()
            .chain(&self.overflow)
            .find(|exchange| exchange.number == number)
    }

    /// Begins an exchange on the stream `number`, which is in no exchange.
    pub(super) fn insert(&mut self, number: u64, slot: u32, head_method: bool) -> &mut Exchange {
        self.live += 1;
        let mut at = place(number, self.places.len());
        if self.places.get(at).is_none_or(Exchange::is_live) {
            if self.live * 2 > self.places.len() {
                self.grow();
                at = place(number, self.places.len());
            }
            if self.places[at].is_live() {
                let mut exchange = Exchange::free();
                exchange.begin(number, slot, head_method);
                self.overflow.push(exchange);
                let last = self.overflow.len() - 1;
                return &mut self.overflow[last];
            }
        }
        let exchange = &mut self.places[at];
        exchange.begin(number, slot, head_method);
        exchange
    }

    /// Forgets the exchange on the stream `number`.
    pub(super) fn remove(&mut self, number: u64) {
        let at = place(number, self.places.len());
        if let Some(exchange) = self.places.get_mut(at)
            && exchange.number == number
        {
            exchange.release();
            self.live -= 1;
        } else if let Some(at) = self.overflow.iter().position(|e| e.number == number) {
            self.overflow.swap_remove(at);
            self.live -= 1;
        }
    }

    /// The stream ids from `first` on that have an exchange, in order.
    pub(super) fn numbers_from(&self, first: u64) -> Vec<u64> {
        let all = self.places.iter().chain(&self.overflow);
        let live = all.filter(|exchange| exchange.is_live() && exchange.number >= first);
        let mut numbers: Vec<_> = live.map(|exchange| exchange.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(Self::FIRST_SIZE);
        let old = std::mem::take(&mut self.places);
        let crowded = std::mem::take(&mut self.overflow);
        self.places.resize_with(size, Exchange::free);
        for exchange in old.into_iter().chain(crowded).filter(Exchange::is_live) {
            let place = &mut self.places[place(exchange.number, size)];
            if place.is_live() {
                self.overflow.push(exchange);
            } else {
                *place = exchange;
            }
        }
    }
}

/// The place of a stream among `size`, a power of two (0 while there is none).
fn place(number: u64, size: usize) -> usize {
    (number >> 2) as usize & size.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_outstanding_together_each_have_a_place() {
        let mut table = Table::default();
        for id in 0..100u64 {
            table.insert(id * 4, id as u32, false);
        }
        assert!(table.overflow.is_empty());
        assert_eq!(table.numbers_from(0).len(), 100);
    }

    #[test]
    fn a_long_lived_exchange_stays_where_thousands_come_and_go() {
        let mut table = Table::default();
        table.insert(0, 7, false);
        for id in 1..10_000u64 {
            table.insert(id * 4, id as u32, false);
            if id > 20 {
                table.remove((id - 20) * 4);
            }
        }
        assert_eq!(table.get_mut(0).unwrap().slot, 7);
        assert_eq!(table.live, 21);
        let last: Vec<_> = (9980..10_000).map(|id| id * 4).collect();
        assert_eq!(table.numbers_from(4), last);
        for id in last {
            assert_eq!(table.get_mut(id).unwrap().slot, (id / 4) as u32);
            table.remove(id);
            assert!(table.get_mut(id).is_none());
        }
        assert!(table.places.len() <= 64 && table.overflow.is_empty());
    }
}
