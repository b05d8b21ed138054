//! Leases: what may go is put into a worker's hands, and taken out of those of workers that are gone.

use std::collections::BTreeSet;
use std::convert::Infallible;

use tidings_proto::delivery::EndpointKey;
use tidings_proto::time::StoreMillis;

use super::{Deliveries, Place};
use crate::commit::Lease;
use crate::flow::{self, HostRow, InFlight, Line, Shelf};
use crate::memory::workers::Workers;
use crate::record::{Delivery, DeliveryState, Taken, WorkerId};

impl Deliveries {
    pub(in crate::memory) fn lease(
        &mut self,
        lease: &Lease,
        workers: &Workers,
        undo: &mut Vec<crate::memory::Undo>,
    ) -> Vec<Delivery> {
        if lease.limit == 0 {
            return Vec::new();
        }
        let free = |(_, place): &&(StoreMillis, Place)| {
            self.rows.get(place).is_some_and(|row| row.until <= lease.now || workers.gone(row.holder, lease.now))
        };
        let abandoned: Vec<_> = self.leased.iter().filter(free).map(|(_, place)| *place).collect();
        for place in abandoned {
            self.give_back(place, undo);
        }
        let mut bench = Bench { deliveries: self, lease, leased: Vec::new(), undo };
        let Ok(()) = flow::lease(&mut bench, lease);
        bench.leased
    }

    pub(in crate::memory) fn lease_outlet(
        &mut self,
        lease: &Lease,
        outlet: &str,
        undo: &mut Vec<crate::memory::Undo>,
    ) -> Vec<Delivery> {
        let due = |(due, _): &&(StoreMillis, Place)| *due <= lease.now;
        let bound = self.bound.get(outlet).into_iter().flatten();
        let places: Vec<_> = bound.take_while(due).take(lease.limit as usize).map(|(_, place)| *place).collect();
        places.into_iter().filter_map(|place| self.take(place, lease, Taken::Ready, false, None, undo)).collect()
    }

    pub(in crate::memory) fn waiting_outlets(&self) -> Vec<(String, StoreMillis)> {
        let first = |bound: &BTreeSet<(StoreMillis, Place)>| bound.first().map(|(due, _)| *due);
        self.bound.iter().filter_map(|(outlet, bound)| Some((outlet.clone(), first(bound)?))).collect()
    }

    fn take(
        &mut self,
        place: Place,
        lease: &Lease,
        taken: Taken,
        suspect: bool,
        batch: Option<u64>,
        undo: &mut Vec<crate::memory::Undo>,
    ) -> Option<Delivery> {
        let mut row = self.rows.get(&place)?.clone();
        self.close_batch(&row, undo);
        self.last_token += 1;
        let attempts = row.attempts;
        row.state = DeliveryState::Leased;
        row.attempts = row.attempts.saturating_add(1);
        row.token = self.last_token;
        row.holder = lease.worker;
        row.until = lease.until;
        row.behind = false;
        let delivery = Delivery { new: row.given(), attempts, token: row.token, taken, suspect, batch };
        self.change(place, Some(row), undo);
        Some(delivery)
    }

    /// Ends a lease without its worker; the attempt that was begun counts.
    fn give_back(&mut self, place: Place, undo: &mut Vec<crate::memory::Undo>) {
        if let Some(mut row) = self.rows.get(&place).cloned() {
            row.state = DeliveryState::Retrying;
            let endpoint = row.new.endpoint;
            self.change(place, Some(row), undo);
            self.wake(endpoint, undo);
        }
    }

    /// Ends all leases of a worker that left; the attempts it began count.
    pub(in crate::memory) fn release(&mut self, worker: WorkerId, undo: &mut Vec<crate::memory::Undo>) {
        let held = |(_, place): &&(StoreMillis, Place)| self.rows.get(place).is_some_and(|row| row.holder == worker);
        let places: Vec<_> = self.leased.iter().filter(held).map(|(_, place)| *place).collect();
        for place in places {
            self.give_back(place, undo);
        }
    }
}

/// One lease on its way.
struct Bench<'a> {
    deliveries: &'a mut Deliveries,
    lease: &'a Lease,
    leased: Vec<Delivery>,
    undo: &'a mut Vec<crate::memory::Undo>,
}

impl Bench<'_> {
    fn take_all(&mut self, places: Vec<Place>, taken: Taken, suspect: bool) -> u32 {
        let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
        for place in places {
            self.leased.extend(self.deliveries.take(place, self.lease, taken, suspect, None, self.undo));
        }
        count
    }

    /// Takes what waits of one batch.
    fn take_batch(&mut self, n: u64, suspect: bool) {
        let members = self.deliveries.batches.get(&n).into_iter().flatten().copied();
        let waits = |place: &Place| self.deliveries.rows.get(place).is_some_and(|row| row.waits() && !row.behind);
        let places: Vec<_> = members.filter(waits).collect();
        for place in places {
            let taken = self.deliveries.take(place, self.lease, Taken::Ready, suspect, Some(n), self.undo);
            self.leased.extend(taken);
        }
    }
}

impl Shelf for Bench<'_> {
    type Error = Infallible;
    type Place = EndpointKey;

    fn first_ready(&mut self, now: StoreMillis, suspects: bool) -> Result<Option<EndpointKey>, Infallible> {
        Ok(self.deliveries.lines.first_ready(now, suspects))
    }

    fn line(&mut self, place: EndpointKey) -> Result<Line, Infallible> {
        // Whatever is ready is there.
        let standing = tidings_proto::delivery::Standing::default();
        let none = Line { standing, principal: String::new(), host: String::new(), tat: 0, at: None, turn: 0 };
        Ok(self.deliveries.lines.line(place).unwrap_or(none))
    }

    fn put_line(&mut self, place: EndpointKey, line: &Line) -> Result<(), Infallible> {
        self.deliveries.lines.put_line(place, line, self.undo);
        Ok(())
    }

    fn in_flight(&mut self, place: EndpointKey) -> Result<InFlight, Infallible> {
        let queue = self.deliveries.queues.get(&place);
        let Some(queue) = queue else { return Ok(InFlight::default()) };
        let batches: Vec<_> = queue.leased.iter().map(|place| self.deliveries.batch_of(*place)).collect();
        let alone = batches.iter().filter(|batch| batch.is_none()).count();
        let together = batches.into_iter().flatten().collect::<BTreeSet<_>>().len();
        let ends = queue.leased.iter().filter_map(|place| self.deliveries.rows.get(place)).map(|row| row.until);
        Ok(InFlight { count: u32::try_from(alone + together).unwrap_or(u32::MAX), until: ends.min() })
    }

    fn next_waiting(&mut self, place: EndpointKey) -> Result<Option<StoreMillis>, Infallible> {
        Ok(self.deliveries.next_waiting(place))
    }

    fn take(
        &mut self,
        place: EndpointKey,
        due_by: StoreMillis,
        limit: u32,
        taken: Taken,
        suspect: bool,
    ) -> Result<u32, Infallible> {
        let Some(queue) = self.deliveries.queues.get(&place) else { return Ok(0) };
        let due = queue.waiting.iter().take_while(|(due, _)| *due <= due_by).map(|(_, place)| *place);
        if taken != Taken::Ready {
            let places = due.take(limit as usize).collect();
            return Ok(self.take_all(places, taken, suspect));
        }
        let mut together = BTreeSet::new();
        let of_batch = |place| (place, self.deliveries.batch_of(place));
        let firsts = due.map(of_batch).filter(|(_, batch)| batch.is_none_or(|n| together.insert(n)));
        let firsts: Vec<_> = firsts.take(limit as usize).collect();
        let count = u32::try_from(firsts.len()).unwrap_or(u32::MAX);
        for (place, batch) in firsts {
            match batch {
                Some(n) => self.take_batch(n, suspect),
                None => drop(self.take_all(vec![place], taken, suspect)),
            }
        }
        Ok(count)
    }

    fn take_let_go(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Infallible> {
        let free = self.deliveries.let_go.iter().take_while(|(at, _)| *at <= now).take(limit as usize);
        let places = free.map(|(_, place)| *place).collect();
        Ok(self.take_all(places, Taken::Ready, false))
    }

    fn take_late(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Infallible> {
        let late = self.deliveries.late.iter().take_while(|(at, _)| *at <= now).take(limit as usize);
        let places = late.map(|(_, place)| *place).collect();
        Ok(self.take_all(places, Taken::Late, false))
    }

    fn host(&mut self, host: &str) -> Result<HostRow, Infallible> {
        Ok(self.deliveries.lines.host(host))
    }

    fn put_host(&mut self, host: &str, row: HostRow) -> Result<(), Infallible> {
        self.deliveries.lines.put_host(host, row, self.undo);
        Ok(())
    }

    fn share(&mut self, host: &str, principal: &str) -> Result<i64, Infallible> {
        Ok(self.deliveries.lines.share(host, principal))
    }

    fn put_share(&mut self, host: &str, principal: &str, tag: i64) -> Result<(), Infallible> {
        self.deliveries.lines.put_share(host, principal, tag, self.undo);
        Ok(())
    }
}
