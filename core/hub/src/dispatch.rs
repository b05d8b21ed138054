//! Takes deliveries that may go, makes their attempts, and settles what came of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidings_proto::config::Route;
use tidings_proto::delivery::{
    AttemptOutcome, Attempted, Category, DeliveryState, DisableReason, EndpointState, Learned, Next, RetryPolicy, next,
};
use tidings_proto::firing::{batch_body, batch_id};
use tidings_proto::route::OutletName;
use tidings_proto::time::StoreMillis;
use tidings_proto::webhook::{
    ID_HEADER, JWE_MEDIA_TYPE, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER, TRACEPARENT_HEADER, encrypt, sign,
};
use tidings_store::{Commit, CommitError, Delivery, Done, Durability, Flow, Lease, Op, Refused, Settle, Taken};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::background::commit;
use crate::core::{Core, millis};
use crate::error::{Error, ErrorCode, Result};
use crate::failpoint;
use crate::outlet::Handed;
use crate::plan;
use crate::receipt;
use crate::sender::{Attempt, JSON_MEDIA_TYPE, Sent};
use crate::target;

/// A lease outlives its attempt by at least this, for recording what came of it.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// How long a store that fails is left alone before the outcome of an attempt is given to it once more.
const AGAIN: Duration = Duration::from_millis(100);

/// Leased at a time, so that no commit takes long.
const BATCH: u32 = 64;
/// Attempts at once at an endpoint that never took anything yet.
const FRESH: u32 = 1;

/// The attempts that are under way in this process.
#[derive(Clone, Default)]
pub(crate) struct Load {
    all: Arc<AtomicU32>,
    /// Those at endpoints for which nothing speaks.
    suspects: Arc<AtomicU32>,
}

impl Load {
    /// All of them.
    pub(crate) fn all(&self) -> u32 {
        Self::of(&self.all)
    }

    fn of(count: &AtomicU32) -> u32 {
        count.load(Ordering::Relaxed)
    }

    /// Counts an attempt until the answer is dropped, however its task ends.
    fn count(&self, suspect: bool) -> Counted {
        let mut counts = vec![Arc::clone(&self.all)];
        if suspect {
            counts.push(Arc::clone(&self.suspects));
        }
        for count in &counts {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Counted(counts)
    }
}

struct Counted(Vec<Arc<AtomicU32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        for count in &self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether every slot is taken.
pub(crate) fn is_full(core: &Core) -> bool {
    core.load.all() >= core.options.concurrency
}

/// Leases what may go `now`, as far as there are free slots, and starts its attempts. Says how many.
pub(crate) async fn lease(core: &Arc<Core>, in_flight: &mut JoinSet<()>, now: StoreMillis) -> usize {
    let slots = core.options.concurrency;
    let limit = slots.saturating_sub(Load::of(&core.load.all)).min(BATCH);
    if limit == 0 || core.is_closed() || core.is_paused() {
        return 0;
    }
    let length = core.options.delivery_lease.max(core.options.attempt_timeout.saturating_add(SETTLE_TIME));
    let until = core.timeline.now().saturating_add(millis(length));
    let flow = Flow {
        per_endpoint: core.options.endpoint_concurrency,
        fresh: FRESH,
        suspects: slots.div_ceil(2).saturating_sub(Load::of(&core.load.suspects)),
        rate: core.options.endpoint_rate,
        host_rate: core.options.host_rate,
        policy: core.options.endpoints,
    };
    let lease = Lease { worker: core.worker, now, until, limit, flow };
    start(core, in_flight, vec![Op::Lease(lease)], until, Some(&core.load)).await
}

/// The same for what waits for places of this process: each takes as much as it has room for. Says how many, and when
/// the next of it is due.
pub(crate) async fn lease_outlets(
    core: &Arc<Core>,
    in_flight: &mut JoinSet<()>,
    now: StoreMillis,
) -> (usize, Option<StoreMillis>) {
    if core.outlets.is_empty() || core.is_closed() || core.is_paused() {
        return (0, None);
    }
    let Ok(waiting) = core.store.waiting_outlets() else { return (0, None) };
    let (ready, next) = core.outlets.room(&waiting, now);
    let mut count = 0;
    for (outlet, room) in ready {
        let length = core.options.delivery_lease.max(room.timeout.saturating_add(SETTLE_TIME));
        let until = core.timeline.now().saturating_add(millis(length));
        let lease = Lease { worker: core.worker, now, until, limit: room.free, flow: Flow::unlimited() };
        count += start(core, in_flight, vec![Op::LeaseOutlet { lease, outlet }], until, None).await;
    }
    (count, next)
}

/// Commits the leases and starts the attempts of what they answer, counted in `load`.
async fn start(
    core: &Arc<Core>,
    in_flight: &mut JoinSet<()>,
    leases: Vec<Op>,
    until: StoreMillis,
    load: Option<&Load>,
) -> usize {
    let Some(done) = commit(core, Durability::Process, leases).await else { return 0 };
    let leased = done.into_iter().flat_map(|done| if let Done::Leased(leased) = done { leased } else { Vec::new() });
    let leased: Vec<Delivery> = leased.collect();
    if core.is_closed() {
        // The hub closed meanwhile: what it fires by that, and all else, waits for the next start.
        let back =
            |delivery: &Delivery| settled(core, delivery, DeliveryState::Retrying, delivery.new.due, None, false);
        if !leased.is_empty() {
            commit(core, Durability::Process, leased.iter().map(back).collect()).await;
        }
        return 0;
    }
    let units = units(leased);
    let count = units.len();
    for unit in units {
        let suspect = unit.first().is_some_and(|delivery| delivery.suspect);
        let counted = load.map(|load| load.count(suspect));
        let span = span(&unit);
        let core = Arc::clone(core);
        let attempt = async move {
            attempt(&core, unit, until).await;
            drop(counted);
        };
        in_flight.spawn(attempt.instrument(span));
    }
    count
}

/// Who follows an attempt sees our own ids and categories, and nothing that a client or an endpoint wrote.
fn span(unit: &[Delivery]) -> tracing::Span {
    let Some(first) = unit.first() else { return tracing::Span::none() };
    let (delivery, endpoint, event) = (first.new.id, first.new.endpoint, &first.new.event_id);
    tracing::debug_span!("attempt", %delivery, %endpoint, event, attempt = first.attempts + 1, deliveries = unit.len())
}

/// What goes out together: each delivery alone, or a batch.
fn units(leased: impl IntoIterator<Item = Delivery>) -> Vec<Vec<Delivery>> {
    let mut units: Vec<Vec<Delivery>> = Vec::new();
    for delivery in leased {
        let with = units
            .last_mut()
            .filter(|unit| delivery.batch.is_some() && unit.first().is_some_and(|first| first.batch == delivery.batch));
        match with {
            Some(unit) => unit.push(delivery),
            None => units.push(vec![delivery]),
        }
    }
    units
}

/// What became of one lease.
struct Ended {
    next: Next,
    /// There was an attempt.
    counts: bool,
    /// What it tells of the endpoint.
    learned: Option<Learned>,
}

/// One lease of what goes out together, to its end: whatever comes of the request comes of each delivery in it, and is
/// recorded of all in one commit.
async fn attempt(core: &Arc<Core>, unit: Vec<Delivery>, until: StoreMillis) {
    let now = core.timeline.now();
    // No attempt begins at or after the deadline, nor once workers died over it as often as it may be tried: it may be what
    // they died of.
    let may_be_tried = |delivery: &Delivery| {
        let left = delivery.attempts < policy(core, delivery).max_attempts;
        delivery.taken == Taken::Ready && now < delivery.new.deadline && left
    };
    let (ready, over): (Vec<_>, Vec<_>) = unit.into_iter().partition(may_be_tried);
    let mut ops = Vec::new();
    for delivery in &over {
        let ended = match delivery.taken {
            Taken::Disabled => given_up(DeliveryState::Dead, Category::EndpointDisabled),
            Taken::Ready if now < delivery.new.deadline => given_up(DeliveryState::Dead, Category::Interrupted),
            Taken::Ready | Taken::Late => {
                let state = if now < delivery.new.deadline { DeliveryState::Dead } else { DeliveryState::Expired };
                given_up(state, waited_for(core, delivery, state))
            }
        };
        ops.extend(consequences(core, delivery, &ended));
    }
    match try_it(core, &ready).await {
        Some(all) => {
            ops.extend(ready.iter().zip(&all).flat_map(|(delivery, ended)| consequences(core, delivery, ended)));
        }
        None => {
            let back =
                |delivery: &Delivery| settled(core, delivery, DeliveryState::Retrying, delivery.new.due, None, false);
            ops.extend(ready.iter().map(back));
        }
    }
    let states: Vec<_> = ops.iter().filter_map(final_state).collect();
    if settle(core, ops, until).await {
        for state in states {
            tracing::debug!(state = state.as_str(), "a delivery has ended");
            core.counters.ended(state);
        }
    }
}

fn given_up(state: DeliveryState, category: Category) -> Ended {
    Ended { next: Next::Final { state, category, disable_endpoint: false }, counts: false, learned: None }
}

/// Why a delivery had to wait until it was too late.
fn waited_for(core: &Core, delivery: &Delivery, state: DeliveryState) -> Category {
    let standing = core.store.endpoint(delivery.new.endpoint).ok().flatten().map(|record| record.standing);
    match standing {
        Some(standing) if standing.state == EndpointState::Disabled => Category::EndpointDisabled,
        Some(standing) if standing.state == EndpointState::Unverified => Category::ChallengeFailed,
        _ if state == DeliveryState::Expired => Category::Deadline,
        _ => Category::RateLimited,
    }
}

/// How it is tried again.
fn policy(core: &Core, delivery: &Delivery) -> RetryPolicy {
    let has_successor = !delivery.new.fallback.0.is_empty();
    RetryPolicy {
        attempt_ms: u64::try_from(core.options.attempt_timeout.as_millis()).unwrap_or(u64::MAX),
        ..if has_successor { RetryPolicy::with_successor() } else { RetryPolicy::last_route() }
    }
}

/// One attempt, and what it comes to for each delivery. `None`: there was nobody to hand it to, and it goes back.
async fn try_it(core: &Arc<Core>, unit: &[Delivery]) -> Option<Vec<Ended>> {
    let Some(first) = unit.first() else { return Some(Vec::new()) };
    let sent = send(core, first, unit).await;
    if sent == Sent::NotTaken {
        return None;
    }
    failpoint::hit("after_post_before_ack");
    let outcome = match &sent {
        Sent::Response { status, retry_after, .. } => {
            AttemptOutcome::Response { status: *status, retry_after: retry_after.as_deref() }
        }
        Sent::Confirmed => AttemptOutcome::Confirmed,
        Sent::NotTaken => AttemptOutcome::Failed(Category::Unreachable),
        Sent::Failed(category) => AttemptOutcome::Failed(*category),
    };
    core.counters.attempt(outcome.category());
    let status = if let AttemptOutcome::Response { status, .. } = outcome { Some(status) } else { None };
    tracing::debug!(result = outcome.category().map_or("taken", Category::as_str), status, "an attempt has ended");
    // One moment and one number for all, so that they come up together again.
    let (now, wall, random) = (core.timeline.now(), core.timeline.wall(), core.random_number());
    // A place in the host has no standing.
    let mut learned = if first.new.outlet.is_some() { None } else { learned(outcome, first.suspect) };
    let of_each = unit.iter().map(|delivery| {
        let attempted = Attempted {
            attempts: delivery.attempts + 1,
            first_attempt_at: delivery.new.created_at,
            deadline: delivery.new.deadline,
        };
        let next = next(&policy(core, delivery), &attempted, outcome, now, wall, random);
        // Said once.
        Ended { next, counts: true, learned: learned.take() }
    });
    Some(of_each.collect())
}

/// Makes an attempt in the way of its route's type.
async fn send(core: &Arc<Core>, delivery: &Delivery, unit: &[Delivery]) -> Sent {
    let route = plan::read(&delivery.new.route).and_then(|mut routes| {
        routes.pop().ok_or_else(|| Error::new(ErrorCode::Internal, "the delivery holds no route"))
    });
    let sent = match route {
        Ok(route) => match OutletName::of(&route) {
            Some(name) => return hand(core, delivery, &name, route).await,
            None => prepare(core, delivery, unit, route).map(|attempt| core.sender.send(attempt)),
        },
        Err(error) => Err(error),
    };
    match sent {
        Ok(sent) => sent.await,
        Err(error) => {
            tracing::error!(delivery = %delivery.new.id, %error, "a delivery cannot be sent");
            Sent::Failed(Category::ProtocolError)
        }
    }
}

/// Through a place of the host.
async fn hand(core: &Arc<Core>, delivery: &Delivery, name: &OutletName, route: Route) -> Sent {
    // Nobody offered it in all its time.
    let over = delivery.new.outlet.as_ref().is_none_or(|outlet| outlet.until <= core.timeline.now());
    match core.outlets.hand(name, delivery, route).await {
        Handed::Confirmed => Sent::Confirmed,
        Handed::Failed(category) => Sent::Failed(category),
        Handed::NotTaken if over => Sent::Failed(Category::Unreachable),
        Handed::NotTaken => Sent::NotTaken,
    }
}

/// What an attempt tells of the endpoint. That one which takes everything took one more is no news, and neither is what is
/// wrong with the event alone (413) or with the operator's own proxy.
fn learned(outcome: AttemptOutcome<'_>, suspect: bool) -> Option<Learned> {
    match (outcome, outcome.category()) {
        (_, None) => suspect.then_some(Learned::Took),
        (AttemptOutcome::Response { status: 410, .. }, _) => Some(Learned::Disable(DisableReason::Gone)),
        (AttemptOutcome::Response { status: 413, .. }, _) | (_, Some(Category::ProxyError)) => None,
        (_, Some(category)) => Some(Learned::Failed(category)),
    }
}

/// The request of one attempt: the stored bytes, where the route wants that encrypted, the same each time, and signed anew
/// with the attempt's own timestamp. A route that batches gets the form of a batch for a single one, too.
fn prepare(core: &Core, delivery: &Delivery, unit: &[Delivery], mut route: Route) -> Result<Attempt> {
    let Some(endpoint) = route.endpoint.clone() else {
        return Err(Error::new(ErrorCode::Internal, "the stored route has no endpoint"));
    };
    let (id, body) = if route.batch.is_some() {
        keep_common_trace(&mut route, unit)?;
        let id = batch_id(unit.iter().map(|delivery| delivery.new.event_id.as_str()));
        (id.to_string(), Bytes::from(batch_body(unit.iter().map(|delivery| &delivery.new.body[..]))))
    } else {
        (delivery.new.event_id.clone(), delivery.new.body.clone())
    };
    let (body, media_type) = encrypted(&route, body)?;
    let headers = signed(core, route, &id, &body)?;
    let keep_for = Some(delivery.new.endpoint);
    Ok(Attempt { endpoint, headers, body: Some(body), media_type, keep_for, keep: 0 })
}

/// A body as its route wants it sent. That of a batch is encrypted by the seed of its first delivery.
fn encrypted(route: &Route, body: Bytes) -> Result<(Bytes, &'static str)> {
    let Some(key) = &route.public_key else { return Ok((body, JSON_MEDIA_TYPE)) };
    let seed = route.seed.as_ref();
    let seed = seed.ok_or_else(|| Error::new(ErrorCode::Internal, "the stored route has a publicKey and no seed"))?;
    let message = encrypt(key, seed, &body).map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?;
    Ok((Bytes::from(message), JWE_MEDIA_TYPE))
}

/// A request has one trace context. That of a batch is the one that all its calls have; otherwise it has none.
fn keep_common_trace(route: &mut Route, unit: &[Delivery]) -> Result<()> {
    let mut common = None;
    for delivery in unit {
        let own = plan::read(&delivery.new.route)?.pop().and_then(|route| {
            let header = route.headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT_HEADER));
            header.map(|(_, value)| value)
        });
        match &common {
            None => common = Some(own),
            Some(seen) if *seen == own => {}
            Some(_) => {
                route.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(TRACEPARENT_HEADER));
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The headers of a request that a route asks for, signed now: with the route's own secret, or else with the operator's,
/// where there is one.
pub(crate) fn signed(core: &Core, route: Route, id: &str, body: &[u8]) -> Result<Vec<(String, String)>> {
    let timestamp = core.timeline.wall().div_euclid(1_000);
    let mut all = vec![(ID_HEADER.to_owned(), id.to_owned()), (TIMESTAMP_HEADER.to_owned(), timestamp.to_string())];
    let own = route.secret.map(|secret| Secret::parse(secret.expose())).transpose();
    let own = own.map_err(|fault| Error::new(ErrorCode::Internal, format!("the stored secret: {fault}")))?;
    let secrets: Vec<Secret> = match own {
        Some(secret) => vec![secret],
        None => core.options.default_secret.iter().chain(&core.options.previous_secret).cloned().collect(),
    };
    if !secrets.is_empty() {
        all.push((SIGNATURE_HEADER.to_owned(), sign(&secrets, id, timestamp, body)));
    }
    all.extend(route.headers.into_iter().map(|(name, value)| (name, value.expose().to_owned())));
    Ok(all)
}

fn settled(
    core: &Core,
    delivery: &Delivery,
    state: DeliveryState,
    due: StoreMillis,
    error: Option<Category>,
    counts: bool,
) -> Op {
    Op::Settle(Box::new(Settle {
        id: delivery.new.id,
        token: delivery.token,
        state,
        due,
        counts,
        error: error.map(|category| category.as_str().to_owned()),
        at: core.timeline.now(),
    }))
}

/// What is to be committed at the end of a lease: with the end of one route goes the start of the next.
fn consequences(core: &Core, delivery: &Delivery, ended: &Ended) -> Vec<Op> {
    let now = core.timeline.now();
    let settled = |state, due, error| settled(core, delivery, state, due, error, ended.counts);
    let attempts = delivery.attempts + u32::from(ended.counts);
    let mut ops = match ended.next {
        Next::Delivered => {
            let receipt = receipt::finished(core, delivery, DeliveryState::Delivered, None, attempts);
            [settled(DeliveryState::Delivered, now, None)].into_iter().chain(receipt).collect()
        }
        Next::RetryAt { at, category } => vec![settled(DeliveryState::Retrying, at, Some(category))],
        // Dead or expired: a route that is still in time takes over.
        Next::Final { state, category, .. } => {
            let successor = plan::successor(core, &delivery.new).unwrap_or_else(|error| {
                tracing::error!(delivery = %delivery.new.id, %error, "the next route is lost");
                Vec::new()
            });
            if successor.is_empty() {
                tracing::warn!(delivery = %delivery.new.id, state = state.as_str(), %category, "a delivery is given up");
                let receipt = receipt::finished(core, delivery, state, Some(category), attempts);
                [settled(state, now, Some(category))].into_iter().chain(receipt).collect()
            } else {
                [settled(DeliveryState::Superseded, now, Some(category))].into_iter().chain(successor).collect()
            }
        }
    };
    if let Some(learned) = ended.learned {
        ops.extend(disables(core, delivery, learned));
        ops.push(target::learned(core, delivery.new.endpoint, learned));
    }
    ops
}

/// The receipt for an endpoint that is disabled by what was learned of it.
fn disables(core: &Core, delivery: &Delivery, learned: Learned) -> Option<Op> {
    if matches!(learned, Learned::Took) {
        return None;
    }
    let before = core.store.endpoint(delivery.new.endpoint).ok().flatten()?.standing;
    let after = before.learn(&core.options.endpoints, learned, core.timeline.now());
    let (reason, _) = after.disabled.filter(|_| before.state != EndpointState::Disabled)?;
    tracing::warn!(endpoint = %delivery.new.endpoint, reason = reason.as_str(), "an endpoint is disabled");
    core.counters.disabled.fetch_add(1, Ordering::Relaxed);
    receipt::disabled(core, &delivery.new.principal, Some(&delivery.new.route_id), reason)
}

/// Commits what became of a delivery, as long as the lease lasts: what is not recorded is sent again, with the same id
/// and bytes. Says whether it is recorded.
async fn settle(core: &Core, mut ops: Vec<Op>, until: StoreMillis) -> bool {
    loop {
        match core.committer.submit(Commit::new(Durability::Disk, ops.clone())).await {
            Ok(Ok(_)) => return true,
            // Whoever closed the stream of receipts must not keep the outcome back.
            Ok(Err(CommitError::Refused(Refused::Closed))) if ops.iter().any(is_receipt) => {
                ops.retain(|op| !is_receipt(op));
            }
            Ok(Err(CommitError::Refused(refused))) => {
                tracing::info!(%refused, "the outcome of an attempt came too late to count");
                return false;
            }
            Ok(Err(CommitError::Store(_))) if !core.is_closed() && core.timeline.now() < until => {
                tokio::time::sleep(AGAIN).await;
            }
            Ok(Err(CommitError::Store(_))) | Err(_) => return false,
        }
    }
}

fn final_state(op: &Op) -> Option<DeliveryState> {
    if let Op::Settle(settle) = op { Some(settle.state).filter(|state| state.is_final()) } else { None }
}

fn is_receipt(op: &Op) -> bool {
    matches!(op, Op::AppendShared(_))
}
