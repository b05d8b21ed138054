//! Which deliveries may go now: one loop for every store.
//!
//! Deliveries wait in lines, one for each endpoint. A line has one moment at which it has to be looked at next; an index
//! over these moments finds the lines in which something may go, so that a thousand endpoints that are down or slow cost
//! nothing. What a line may send follows from its endpoint's standing, its slots and its rates; a line that is looked at
//! and may not send is put where it comes up again no sooner than it may, or nowhere, where only an event can open it (a
//! verification, an attempt that ends). Endpoints for which nothing speaks share a part of the slots: while it is used up,
//! their lines are passed over as they stand, so that the first of them has its turn with the next free slot. While slots
//! are scarce, whoever is looked at gets a part of what is left, so that those behind it get something too; and an endpoint
//! with an attempt that is slow gets no other beside it.
//!
//! Lines come up in the order in which they were served last, so that a long one does not hold up the others. Where the
//! endpoints of one host are more than its rate, its tokens go round its principals: start-time fair queueing (Goyal,
//! Vin, Cheng 1996), with one packet size.

use std::collections::HashMap;

use tidings_proto::delivery::{EndpointPolicy, Gate, Learned, Rate, Standing};
use tidings_proto::time::StoreMillis;

use crate::commit::Lease;
use crate::record::Taken;

/// How much may go where at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Attempts under way at one endpoint that takes what comes, over all workers.
    pub per_endpoint: u32,
    /// The same for one that never took anything yet.
    pub fresh: u32,
    /// How many of the deliveries of this lease may go to endpoints for which nothing speaks: those that fail, and those
    /// that never took anything yet.
    pub suspects: u32,
    /// How many slots the worker has …
    pub slots: u32,
    /// … and how many of them are free. They are scarce while less than half are.
    pub free: u32,
    /// An attempt whose lease began so long ago is slow, in milliseconds.
    pub slow_ms: i64,
    /// Attempts at one endpoint.
    pub rate: Option<Rate>,
    /// Attempts at one host, over all endpoints and principals.
    pub host_rate: Option<Rate>,
    /// How endpoints are judged.
    pub policy: EndpointPolicy,
}

/// While slots are scarce, this part of those that are left goes to one endpoint at a look.
const PART: u32 = 8;

impl Flow {
    /// Everything may go at once.
    pub fn unlimited() -> Self {
        Self {
            per_endpoint: u32::MAX,
            fresh: u32::MAX,
            suspects: u32::MAX,
            slots: u32::MAX,
            free: u32::MAX,
            slow_ms: i64::MAX,
            rate: None,
            host_rate: None,
            policy: EndpointPolicy::default(),
        }
    }
}

/// What a line is.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its endpoint.
    pub standing: Standing,
    /// Whose it is.
    pub principal: String,
    /// Its host; empty: it has none, and no host's limits.
    pub host: String,
    /// Its bucket.
    pub tat: i64,
    /// When it is looked at.
    pub at: Option<StoreMillis>,
    /// Its order among lines of one moment.
    pub turn: i64,
}

/// What all lines of one host share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRow {
    /// Its bucket.
    pub tat: i64,
    /// Virtual time: the start tag of what was served last.
    pub clock: i64,
}

/// What some worker has in hands of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// How many deliveries, those of one batch counted as one.
    pub count: u32,
    /// The end of the lease that ends first.
    pub until: Option<StoreMillis>,
}

/// The rows that the loop works on. Every method is one look-up or one change.
pub trait Shelf {
    /// What can fail.
    type Error;
    /// A line's row.
    type Place: Copy;

    /// The first line to look at: the least (at, turn), at or before `now`; `suspects`: those whose standing
    /// [is suspect](Standing::is_suspect) among them.
    fn first_ready(&mut self, now: StoreMillis, suspects: bool) -> Result<Option<Self::Place>, Self::Error>;
    /// The line.
    fn line(&mut self, place: Self::Place) -> Result<Line, Self::Error>;
    /// Writes what may change of a line.
    fn put_line(&mut self, place: Self::Place, line: &Line) -> Result<(), Self::Error>;
    /// Its deliveries in some worker's hands.
    fn in_flight(&mut self, place: Self::Place) -> Result<InFlight, Self::Error>;
    /// When its next waiting delivery is due.
    fn next_waiting(&mut self, place: Self::Place) -> Result<Option<StoreMillis>, Self::Error>;
    /// Leases up to `limit` of its waiting deliveries that are due by then, oldest due first. Answers how many. With
    /// [`Taken::Ready`] all that wait of one batch go together and count as one; otherwise each goes alone.
    fn take(
        &mut self,
        place: Self::Place,
        due_by: StoreMillis,
        limit: u32,
        taken: Taken,
        suspect: bool,
    ) -> Result<u32, Self::Error>;
    /// Leases up to `limit` deliveries of outlets whose time has run out by `now`. Answers how many.
    fn take_let_go(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Self::Error>;
    /// Leases up to `limit` deliveries of any line whose wait has ended by `now`. Answers how many.
    fn take_late(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Self::Error>;
    /// A host's row.
    fn host(&mut self, host: &str) -> Result<HostRow, Self::Error>;
    /// Writes a host's row.
    fn put_host(&mut self, host: &str, row: HostRow) -> Result<(), Self::Error>;
    /// The tag up to which a principal was served at a host.
    fn share(&mut self, host: &str, principal: &str) -> Result<i64, Self::Error>;
    /// Writes it.
    fn put_share(&mut self, host: &str, principal: &str, tag: i64) -> Result<(), Self::Error>;
}

/// Leases what may go.
pub fn lease<S: Shelf>(shelf: &mut S, lease: &Lease) -> Result<(), S::Error> {
    let mut round = Round {
        now: lease.now,
        flow: lease.flow,
        slow_until: lease.until.saturating_sub(lease.flow.slow_ms),
        left: lease.limit,
        free: lease.flow.free,
        suspects: lease.flow.suspects,
        held_up: HashMap::new(),
    };
    // Each look either serves a line or puts it behind; the bound is for a store that holds more of the latter than
    // anybody should wait for. The next lease goes on from there.
    let mut looks = lease.limit.saturating_mul(4).saturating_add(64);
    while round.left > 0 && looks > 0 {
        looks -= 1;
        let Some(place) = shelf.first_ready(round.now, round.suspects > 0)? else { break };
        round.look(shelf, place)?;
    }
    if round.left > 0 {
        let count = shelf.take_let_go(round.now, round.left)?;
        round.left -= count.min(round.left);
    }
    if round.left > 0 {
        shelf.take_late(round.now, round.left)?;
    }
    Ok(())
}

struct Round {
    now: StoreMillis,
    flow: Flow,
    /// A lease that ends by then began so long ago that its attempt is slow. All leases are of one length, unless an operator has
    /// changed it or gave his processes different ones: then they count as slow a little early or late.
    slow_until: StoreMillis,
    left: u32,
    free: u32,
    suspects: u32,
    /// Lines that found the bucket of a host empty in this round, by host and principal.
    held_up: HashMap<(String, String), i64>,
}

impl Round {
    fn look<S: Shelf>(&mut self, shelf: &mut S, place: S::Place) -> Result<(), S::Error> {
        let mut line = shelf.line(place)?;
        match line.standing.gate(self.now) {
            Gate::Open => return self.serve(shelf, place, line),
            Gate::At(at) => line.at = Some(at),
            Gate::Unverified => line.at = None,
            Gate::Lapsed => {
                line.standing = line.standing.learn(&self.flow.policy, Learned::Lapsed, self.now);
                line.at = None;
            }
            Gate::Disabled => {
                let count = shelf.take(place, StoreMillis::MAX, self.left, Taken::Disabled, false)?;
                self.left -= count.min(self.left);
                line.at = shelf.next_waiting(place)?.map(|_| self.now);
            }
        }
        shelf.put_line(place, &line)
    }

    fn serve<S: Shelf>(&mut self, shelf: &mut S, place: S::Place, mut line: Line) -> Result<(), S::Error> {
        let (now, flow) = (self.now, self.flow);
        let suspect = line.standing.is_suspect();
        let slots = line.standing.health.slots(flow.per_endpoint, flow.fresh, now);
        let InFlight { count: in_flight, until } = shelf.in_flight(place)?;
        // A suspect comes here only while there is a slot for it.
        let share = if suspect { self.suspects } else { self.left };
        let mut want = slots.saturating_sub(in_flight).min(self.left).min(share);
        if self.free < flow.slots / 2 {
            // Whoever has hung so far is not given the rest; and who may yet come to hang, not all of it.
            let slow = until.is_some_and(|until| until <= self.slow_until);
            want = if slow { 0 } else { want.min((self.free / PART).max(1)) };
        }
        if want == 0 {
            // It comes up again with the end of one of its attempts.
            line.at = None;
            return shelf.put_line(place, &line);
        }
        if let Some(rate) = flow.rate {
            want = rate.take(line.tat, now, want).count;
            if want == 0 {
                line.at = Some(rate.next(line.tat, now));
                return shelf.put_line(place, &line);
            }
        }
        let mut tag = None;
        let mut host = HostRow::default();
        if let Some(rate) = flow.host_rate.filter(|_| !line.host.is_empty()) {
            host = shelf.host(&line.host)?;
            // While the bucket is more than half full nobody has to be fair.
            let spare = want.saturating_add(rate.burst.div_ceil(2));
            if rate.take(host.tat, now, spare).count < spare {
                let start = shelf.share(&line.host, &line.principal)?.max(host.clock);
                if rate.take(host.tat, now, 1).count == 0 {
                    // Spread over the tokens to come, so that each of them finds a line of each principal and not all.
                    let nth = self.held_up.entry((line.host.clone(), line.principal.clone())).or_default();
                    let after_ms = nth.saturating_mul(1_000) / i64::from(rate.per_second.max(1));
                    *nth += 1;
                    (line.at, line.turn) = (Some(rate.next(host.tat, now).saturating_add(after_ms)), start);
                    return shelf.put_line(place, &line);
                }
                if start > line.turn {
                    // Its principal was served since: others may come first.
                    line.turn = start;
                    return shelf.put_line(place, &line);
                }
                (want, tag) = (1, Some(start));
            }
        }
        let count = shelf.take(place, now, want, Taken::Ready, suspect)?;
        if count > 0 {
            self.left -= count.min(self.left);
            self.free -= count.min(self.free);
            if suspect {
                self.suspects -= count.min(self.suspects);
            }
            if let Some(rate) = flow.rate {
                line.tat = rate.take(line.tat, now, count).tat;
            }
            if let Some(rate) = flow.host_rate.filter(|_| !line.host.is_empty()) {
                host.tat = rate.take(host.tat, now, count).tat;
                if let Some(start) = tag {
                    host.clock = start;
                    line.turn = start + 1;
                    shelf.put_share(&line.host, &line.principal, start + 1)?;
                }
                shelf.put_host(&line.host, host)?;
            }
        }
        line.at = match shelf.next_waiting(place)? {
            Some(_) if in_flight.saturating_add(count) >= slots => None,
            Some(due) => {
                let after_rate = flow.rate.map_or(now, |rate| rate.next(line.tat, now));
                Some(due.max(after_rate))
            }
            None => None,
        };
        shelf.put_line(place, &line)
    }
}
