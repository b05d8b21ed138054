//! Takes due deliveries, makes their attempts, and settles what came of them.

use std::sync::Arc;

use tidings_proto::config::Route;
use tidings_proto::delivery::{AttemptOutcome, Attempted, Category, DeliveryState, Next, RetryPolicy, next};
use tidings_proto::webhook::{ID_HEADER, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER, sign};
use tidings_store::{Delivery, Done, Durability, Lease, Op, Settle};
use tokio::task::JoinSet;

use crate::background::commit;
use crate::core::{Core, millis};
use crate::error::Result;
use crate::failpoint;
use crate::plan;
use crate::sender::{Attempt, Sent};

/// Leases what is due, as far as there are free slots, and starts its attempts.
pub(crate) async fn lease(core: &Arc<Core>, in_flight: &mut JoinSet<()>) {
    let free = (core.options.concurrency as usize).saturating_sub(in_flight.len());
    let Ok(limit) = u32::try_from(free) else { return };
    if limit == 0 {
        return;
    }
    let now = core.timeline.now();
    let lease = Lease { worker: core.worker, now, until: now + millis(core.options.delivery_lease), limit };
    let Some(done) = commit(core, Durability::Process, vec![Op::Lease(lease)]).await else { return };
    for delivery in done.into_iter().flat_map(|done| if let Done::Leased(leased) = done { leased } else { Vec::new() })
    {
        let core = Arc::clone(core);
        in_flight.spawn(async move { attempt(&core, delivery).await });
    }
}

/// One attempt of one delivery, from the lease to its end.
async fn attempt(core: &Arc<Core>, delivery: Delivery) {
    let started = core.timeline.now();
    let sent = if started >= delivery.new.deadline {
        Sent::Failed(Category::Deadline)
    } else {
        match prepare(core, &delivery) {
            Ok(attempt) => core.sender.send(attempt).await,
            Err(error) => {
                tracing::error!(delivery = %delivery.new.id, %error, "a delivery cannot be sent");
                Sent::Failed(Category::ProtocolError)
            }
        }
    };
    failpoint::hit("after_post_before_ack");
    let attempts = delivery.attempts + 1;
    let attempted = Attempted { attempts, first_attempt_at: delivery.new.created_at, deadline: delivery.new.deadline };
    let has_successor = !delivery.new.fallback.0.is_empty();
    let policy = RetryPolicy {
        attempt_ms: u64::try_from(core.options.attempt_timeout.as_millis()).unwrap_or(u64::MAX),
        ..if has_successor { RetryPolicy::with_successor() } else { RetryPolicy::last_route() }
    };
    let outcome = match &sent {
        Sent::Response { status, retry_after } => {
            AttemptOutcome::Response { status: *status, retry_after: retry_after.as_deref() }
        }
        Sent::Failed(category) => AttemptOutcome::Failed(*category),
    };
    let now = core.timeline.now();
    let random = core.random().map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default()));
    settle(core, &delivery, next(&policy, &attempted, outcome, now, core.timeline.wall(), random)).await;
}

/// The request of one attempt: the stored bytes, signed anew with the attempt's own timestamp.
fn prepare(core: &Core, delivery: &Delivery) -> Result<Attempt> {
    let route = plan::read(&delivery.new.route)?.pop();
    let Some(Route { endpoint: Some(endpoint), secret, headers, .. }) = route else {
        return Err(crate::Error::new(crate::ErrorCode::Internal, "the stored route has no endpoint"));
    };
    let timestamp = core.timeline.wall().div_euclid(1_000);
    let mut all = vec![
        (ID_HEADER.to_owned(), delivery.new.event_id.clone()),
        (TIMESTAMP_HEADER.to_owned(), timestamp.to_string()),
    ];
    let own = secret.map(|secret| Secret::parse(secret.expose())).transpose();
    let own =
        own.map_err(|fault| crate::Error::new(crate::ErrorCode::Internal, format!("the stored secret: {fault}")))?;
    if let Some(secret) = own.or_else(|| core.options.default_secret.clone()) {
        let signature = sign(&[secret], &delivery.new.event_id, timestamp, &delivery.new.body);
        all.push((SIGNATURE_HEADER.to_owned(), signature));
    }
    all.extend(headers.into_iter().map(|(name, value)| (name, value.expose().to_owned())));
    Ok(Attempt { endpoint, headers: all, body: delivery.new.body.clone() })
}

/// Commits what became of the delivery; with the end of one route goes the start of the next.
async fn settle(core: &Core, delivery: &Delivery, next: Next) {
    let now = core.timeline.now();
    let settle = |state, due, error: Option<Category>| {
        Op::Settle(Box::new(Settle {
            id: delivery.new.id,
            token: delivery.token,
            state,
            due,
            counts: true,
            error: error.map(|category| category.as_str().to_owned()),
            at: now,
        }))
    };
    let ops = match next {
        Next::Delivered => vec![settle(DeliveryState::Delivered, now, None)],
        Next::RetryAt { at, category } => vec![settle(DeliveryState::Retrying, at, Some(category))],
        Next::Final { state, category, .. } => match plan::successor(core, &delivery.new) {
            Ok(Some(successor)) if state == DeliveryState::Dead => {
                vec![settle(DeliveryState::Superseded, now, Some(category)), Op::Enqueue(Box::new(successor))]
            }
            Ok(_) => {
                tracing::warn!(delivery = %delivery.new.id, state = state.as_str(), %category, "a delivery is given up");
                vec![settle(state, now, Some(category))]
            }
            Err(error) => {
                tracing::error!(delivery = %delivery.new.id, %error, "the next route is lost");
                vec![settle(state, now, Some(category))]
            }
        },
    };
    // A lost lease or a failing store changes nothing here: the delivery comes up again, with the same id and bytes.
    if commit(core, Durability::Disk, ops).await.is_some() {
        core.work.notify_one();
    }
}
