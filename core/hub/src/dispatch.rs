//! Takes due deliveries, makes their attempts, and settles what came of them.

use std::sync::Arc;
use std::time::Duration;

use tidings_proto::config::Route;
use tidings_proto::delivery::{AttemptOutcome, Attempted, Category, DeliveryState, Next, RetryPolicy, next};
use tidings_proto::route::OutletName;
use tidings_proto::time::StoreMillis;
use tidings_proto::webhook::{ID_HEADER, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER, sign};
use tidings_store::{Commit, CommitError, Delivery, Done, Durability, Lease, Op, Settle};
use tokio::task::JoinSet;

use crate::background::commit;
use crate::core::{Core, millis};
use crate::error::{Error, ErrorCode, Result};
use crate::failpoint;
use crate::outlet::Handed;
use crate::plan;
use crate::sender::{Attempt, Sent};

/// A lease outlives its attempt by at least this, for recording what came of it.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// How long a store that fails is left alone before the outcome of an attempt is given to it once more.
const AGAIN: Duration = Duration::from_millis(100);

/// Leases what is due `now`, as far as there are free slots, and starts its attempts. Says how many.
pub(crate) async fn lease(core: &Arc<Core>, in_flight: &mut JoinSet<()>, now: StoreMillis) -> usize {
    let free = (core.options.concurrency as usize).saturating_sub(in_flight.len());
    let limit = u32::try_from(free).unwrap_or(u32::MAX);
    if limit == 0 || core.is_closed() {
        return 0;
    }
    let length = core.options.delivery_lease.max(core.options.attempt_timeout.saturating_add(SETTLE_TIME));
    let until = core.timeline.now().saturating_add(millis(length));
    let lease = Lease { worker: core.worker, now, until, limit };
    start(core, in_flight, vec![Op::Lease(lease)], until).await
}

/// The same for what waits for places of this process: each takes as much as it has room for. Says how many, and when
/// the next of it is due.
pub(crate) async fn lease_outlets(
    core: &Arc<Core>,
    in_flight: &mut JoinSet<()>,
    now: StoreMillis,
) -> (usize, Option<StoreMillis>) {
    if core.outlets.is_empty() || core.is_closed() {
        return (0, None);
    }
    let Ok(waiting) = core.store.waiting_outlets() else { return (0, None) };
    let (ready, next) = core.outlets.room(&waiting, now);
    let mut count = 0;
    for (outlet, room) in ready {
        let length = core.options.delivery_lease.max(room.timeout.saturating_add(SETTLE_TIME));
        let until = core.timeline.now().saturating_add(millis(length));
        let lease = Lease { worker: core.worker, now, until, limit: room.free };
        count += start(core, in_flight, vec![Op::LeaseOutlet { lease, outlet }], until).await;
    }
    (count, next)
}

/// Commits the leases and starts the attempts of what they answer.
async fn start(core: &Arc<Core>, in_flight: &mut JoinSet<()>, leases: Vec<Op>, until: StoreMillis) -> usize {
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
    let count = leased.len();
    for delivery in leased {
        let core = Arc::clone(core);
        in_flight.spawn(async move { attempt(&core, delivery, until).await });
    }
    count
}

/// One attempt of one delivery, from the lease to its end.
async fn attempt(core: &Arc<Core>, delivery: Delivery, until: StoreMillis) {
    // No attempt begins at or after the deadline.
    let in_time = core.timeline.now() < delivery.new.deadline;
    let sent = if !in_time { Sent::Failed(Category::Deadline) } else { send(core, &delivery).await };
    if sent == Sent::NotTaken {
        let back = settled(core, &delivery, DeliveryState::Retrying, delivery.new.due, None, false);
        return settle(core, vec![back], until).await;
    }
    failpoint::hit("after_post_before_ack");
    let attempted = Attempted {
        attempts: delivery.attempts + u32::from(in_time),
        first_attempt_at: delivery.new.created_at,
        deadline: delivery.new.deadline,
    };
    let has_successor = !delivery.new.fallback.0.is_empty();
    let policy = RetryPolicy {
        attempt_ms: u64::try_from(core.options.attempt_timeout.as_millis()).unwrap_or(u64::MAX),
        ..if has_successor { RetryPolicy::with_successor() } else { RetryPolicy::last_route() }
    };
    let outcome = match &sent {
        Sent::Response { status, retry_after } => {
            AttemptOutcome::Response { status: *status, retry_after: retry_after.as_deref() }
        }
        Sent::Confirmed => AttemptOutcome::Confirmed,
        Sent::NotTaken => AttemptOutcome::Failed(Category::Unreachable),
        Sent::Failed(category) => AttemptOutcome::Failed(*category),
    };
    let now = core.timeline.now();
    let random = core.random().map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default()));
    let next = next(&policy, &attempted, outcome, now, core.timeline.wall(), random);
    settle(core, consequences(core, &delivery, next, in_time), until).await;
}

/// Makes an attempt in the way of its route's type.
async fn send(core: &Arc<Core>, delivery: &Delivery) -> Sent {
    let route = plan::read(&delivery.new.route).and_then(|mut routes| {
        routes.pop().ok_or_else(|| Error::new(ErrorCode::Internal, "the delivery holds no route"))
    });
    let sent = match route {
        Ok(route) => match OutletName::of(&route) {
            Some(name) => return hand(core, delivery, &name, route).await,
            None => prepare(core, delivery, route).map(|attempt| core.sender.send(attempt)),
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

/// The request of one attempt: the stored bytes, signed anew with the attempt's own timestamp.
fn prepare(core: &Core, delivery: &Delivery, route: Route) -> Result<Attempt> {
    let Route { endpoint: Some(endpoint), secret, headers, .. } = route else {
        return Err(Error::new(ErrorCode::Internal, "the stored route has no endpoint"));
    };
    let timestamp = core.timeline.wall().div_euclid(1_000);
    let mut all = vec![
        (ID_HEADER.to_owned(), delivery.new.event_id.clone()),
        (TIMESTAMP_HEADER.to_owned(), timestamp.to_string()),
    ];
    let own = secret.map(|secret| Secret::parse(secret.expose())).transpose();
    let own = own.map_err(|fault| Error::new(ErrorCode::Internal, format!("the stored secret: {fault}")))?;
    if let Some(secret) = own.or_else(|| core.options.default_secret.clone()) {
        let signature = sign(&[secret], &delivery.new.event_id, timestamp, &delivery.new.body);
        all.push((SIGNATURE_HEADER.to_owned(), signature));
    }
    all.extend(headers.into_iter().map(|(name, value)| (name, value.expose().to_owned())));
    Ok(Attempt { endpoint, headers: all, body: delivery.new.body.clone() })
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

/// What is to be committed after an attempt: with the end of one route goes the start of the next. `counts`: there was
/// an attempt.
fn consequences(core: &Core, delivery: &Delivery, next: Next, counts: bool) -> Vec<Op> {
    let now = core.timeline.now();
    let settled = |state, due, error| settled(core, delivery, state, due, error, counts);
    match next {
        Next::Delivered => vec![settled(DeliveryState::Delivered, now, None)],
        Next::RetryAt { at, category } => vec![settled(DeliveryState::Retrying, at, Some(category))],
        // Dead or expired: a route that is still in time takes over.
        Next::Final { state, category, .. } => match plan::successor(core, &delivery.new) {
            Ok(Some(successor)) => {
                vec![settled(DeliveryState::Superseded, now, Some(category)), Op::Enqueue(Box::new(successor))]
            }
            Ok(None) => {
                tracing::warn!(delivery = %delivery.new.id, state = state.as_str(), %category, "a delivery is given up");
                vec![settled(state, now, Some(category))]
            }
            Err(error) => {
                tracing::error!(delivery = %delivery.new.id, %error, "the next route is lost");
                vec![settled(state, now, Some(category))]
            }
        },
    }
}

/// Commits what became of a delivery, as long as the lease lasts: what is not recorded is sent again, with the same id
/// and bytes.
async fn settle(core: &Core, ops: Vec<Op>, until: StoreMillis) {
    loop {
        match core.committer.submit(Commit::new(Durability::Disk, ops.clone())).await {
            Ok(Ok(_)) => return core.work.notify_one(),
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
