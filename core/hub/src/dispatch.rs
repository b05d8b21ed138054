//! Takes deliveries that may go, makes their attempts, and settles what came of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_proto::config::Route;
use tidings_proto::delivery::{
    AttemptOutcome, Attempted, Category, DeliveryState, DisableReason, EndpointState, Learned, Next, RetryPolicy, next,
};
use tidings_proto::route::OutletName;
use tidings_proto::time::StoreMillis;
use tidings_store::{Commit, CommitError, Delivery, Done, Durability, Flow, Lease, Op, Refused, Settle, Taken};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::background::commit;
use crate::core::{Core, millis};
use crate::failpoint;
use crate::load::{Load, SLOW, Slot};
use crate::outlet::Handed;
use crate::plan;
use crate::receipt;
use crate::request::prepare;
use crate::sender::Sent;
use crate::target;

/// A lease outlives its attempt by at least this, for recording what came of it.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// How long a store that fails is left alone before the outcome of an attempt is given to it once more.
const AGAIN: Duration = Duration::from_millis(100);

/// Leased at a time, so that no commit takes long.
const BATCH: u32 = 64;
/// Attempts at once at an endpoint that never took anything yet.
const FRESH: u32 = 1;

/// Whether every slot is taken.
pub(crate) fn is_full(core: &Core) -> bool {
    core.load.is_full(core.options.concurrency)
}

/// What came of the attempts of one lease, to be recorded in one commit.
pub(crate) struct Outcome {
    ops: Vec<Op>,
    /// When the lease ends.
    until: StoreMillis,
    /// Its slot, until it is recorded.
    slot: Option<Slot>,
}

/// An attempt that goes on. One that has ended answers what is to be recorded of it, if anything.
pub(crate) type Attempts = JoinSet<Option<Outcome>>;

/// Records `outcomes`, leases what may go `now` into their slots and those that are free, and starts its attempts. The lease is
/// in one group with what makes room for it. Says how many were started.
pub(crate) async fn turn(
    core: &Arc<Core>,
    in_flight: &mut Attempts,
    outcomes: Vec<Outcome>,
    now: StoreMillis,
) -> usize {
    let lease = lease(core, &outcomes, now);
    let recorded = outcomes.into_iter().map(|Outcome { ops, until, slot }| {
        let commit = Commit::new(Durability::Disk, ops);
        (commit, (until, slot))
    });
    let (mut commits, ends): (Vec<Commit>, Vec<_>) = recorded.unzip();
    commits.extend(lease.map(|lease| Commit::new(Durability::Process, vec![Op::Lease(lease)])));
    if commits.is_empty() {
        return 0;
    }
    let mut answers = core.committer.submit_all(commits).await.unwrap_or_default().into_iter();
    for (until, slot) in ends {
        match answers.next() {
            Some((Ok(_), commit)) => ended_in(core, &commit.ops),
            Some((Err(_), Commit { ops, .. })) => {
                // By itself, where there is time to try again.
                let (core, outcome) = (Arc::clone(core), Outcome { ops, until, slot });
                in_flight.spawn(async move {
                    settle(&core, outcome).await;
                    None
                });
            }
            None => {} // the writer thread has ended: it comes up again with the end of its lease
        }
    }
    match (lease, answers.next()) {
        (Some(lease), Some((Ok(done), _))) => start(core, in_flight, done, lease.until, Some(&core.load)).await,
        _ => 0,
    }
}

/// The lease for what is free once these are recorded; `None` while nothing may be leased.
fn lease(core: &Core, ended: &[Outcome], now: StoreMillis) -> Option<Lease> {
    let slots = core.options.concurrency;
    let taken = core.load.taken(slots, ended.iter().filter_map(|outcome| outcome.slot.as_ref()), Instant::now());
    let free = slots.saturating_sub(taken.all);
    let limit = free.min(BATCH);
    if limit == 0 || core.is_closed() || core.is_paused() {
        return None;
    }
    let length = core.options.delivery_lease.max(core.options.attempt_timeout.saturating_add(SETTLE_TIME));
    let until = core.timeline.now().saturating_add(millis(length));
    let flow = Flow {
        per_endpoint: core.options.endpoint_concurrency,
        fresh: FRESH,
        suspects: slots.div_ceil(2).saturating_sub(taken.suspects),
        slots,
        free,
        slow_ms: millis(SLOW),
        rate: core.options.endpoint_rate,
        host_rate: core.options.host_rate,
        policy: core.options.endpoints,
    };
    Some(Lease { worker: core.worker, now, until, limit, flow })
}

/// Leases what waits for places of this process and starts its attempts: each takes as much as it has room for. Says how many, and when
/// the next of it is due.
pub(crate) async fn lease_outlets(
    core: &Arc<Core>,
    in_flight: &mut Attempts,
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
        if let Some(done) = commit(core, Durability::Process, vec![Op::LeaseOutlet { lease, outlet }]).await {
            count += start(core, in_flight, done, until, None).await;
        }
    }
    (count, next)
}

/// Starts the attempts of what was leased, counted in `load`.
async fn start(
    core: &Arc<Core>,
    in_flight: &mut Attempts,
    done: Vec<Done>,
    until: StoreMillis,
    load: Option<&Load>,
) -> usize {
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
        let slot = load.map(|load| load.begin(suspect, Instant::now()));
        let span = span(&unit);
        let core = Arc::clone(core);
        let attempt = async move { Some(Outcome { ops: attempt(&core, unit).await, until, slot }) };
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

/// One lease of what goes out together: whatever comes of the request comes of each delivery in it, and is to be recorded
/// of all in one commit.
async fn attempt(core: &Arc<Core>, unit: Vec<Delivery>) -> Vec<Op> {
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
    ops
}

/// It is recorded.
fn ended_in(core: &Core, ops: &[Op]) {
    for state in ops.iter().filter_map(final_state) {
        tracing::debug!(state = state.as_str(), "a delivery has ended");
        core.counters.ended(state);
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
    let sent = match core.routes.read(&delivery.new.route) {
        Ok(route) => match OutletName::of(&route) {
            Some(name) => return hand(core, delivery, &name, Route::clone(&route)).await,
            None => prepare(core, delivery, unit, &route).map(|attempt| core.sender.send(attempt)),
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
/// and bytes.
async fn settle(core: &Core, outcome: Outcome) {
    let Outcome { mut ops, until, slot: _slot } = outcome;
    loop {
        match core.committer.submit(Commit::new(Durability::Disk, ops.clone())).await {
            Ok(Ok(_)) => return ended_in(core, &ops),
            // Whoever closed the stream of receipts must not keep the outcome back.
            Ok(Err(CommitError::Refused(Refused::Closed))) if ops.iter().any(is_receipt) => {
                ops.retain(|op| !is_receipt(op));
            }
            Ok(Err(CommitError::Refused(refused))) => {
                tracing::info!(%refused, "the outcome of an attempt came too late to count");
                return;
            }
            Ok(Err(CommitError::Store(_))) if !core.is_closed() && core.timeline.now() < until => {
                tokio::time::sleep(AGAIN).await;
            }
            Ok(Err(CommitError::Store(_))) | Err(_) => return,
        }
    }
}

fn final_state(op: &Op) -> Option<DeliveryState> {
    if let Op::Settle(settle) = op { Some(settle.state).filter(|state| state.is_final()) } else { None }
}

fn is_receipt(op: &Op) -> bool {
    matches!(op, Op::AppendShared(_))
}
