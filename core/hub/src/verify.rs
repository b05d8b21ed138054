//! Asks endpoints whether they want webhooks, beside the tools whose configs name them. Deliveries wait for it in the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tidings_proto::address::Endpoint;
use tidings_proto::config::Route;
use tidings_proto::delivery::{Category, EndpointState, Learned, Proof};
use tidings_proto::stream::encode_id;
use tidings_proto::time::StoreMillis;
use tidings_proto::webhook::{
    MAX_CHALLENGE_ANSWER_BYTES, MAX_RECEIVER_DOCUMENT_BYTES, challenge_json, is_challenge_answer, is_receiver,
    receiver_document_url,
};
use tidings_proto::wire::sep3415::VERIFICATION_ID_PREFIX;
use tidings_store::{Done, Durability, EndpointRecord, Op};
use tokio::task::JoinSet;

use crate::background::commit;
use crate::core::{Core, millis};
use crate::dispatch::signed;
use crate::error::Result;
use crate::plan;
use crate::receipt;
use crate::sender::{Attempt, Sent};
use crate::target;

/// Verifications under way at a time: they are cheap, and none may hold up another for long.
const AT_ONCE: u32 = 32;
/// After how long an endpoint is taken by somebody else, besides the time that its requests may take.
const SPARE: Duration = Duration::from_secs(10);

/// Takes endpoints that have to be verified and starts to ask them. Says how many.
pub(crate) async fn start(core: &Arc<Core>, in_flight: &mut JoinSet<()>, now: StoreMillis) -> usize {
    let limit = AT_ONCE.saturating_sub(core.verifying.load(Ordering::Relaxed));
    if limit == 0 || core.is_closed() || core.is_paused() {
        return 0;
    }
    // A write only where there is something to do: this comes by whenever a delivery is due.
    if !core.store.next_verification().is_ok_and(|at| at.is_some_and(|at| at <= now)) {
        return 0;
    }
    let until = now.saturating_add(millis(core.options.attempt_timeout.saturating_mul(2).saturating_add(SPARE)));
    let take = Op::TakeUnverified { now, until, limit };
    let Some(done) = commit(core, Durability::Process, vec![take]).await else { return 0 };
    let mut count = 0;
    for record in done.into_iter().flat_map(|done| if let Done::Verify(records) = done { records } else { Vec::new() })
    {
        count += 1;
        core.verifying.fetch_add(1, Ordering::Relaxed);
        let core = Arc::clone(core);
        in_flight.spawn(async move {
            let _counted = Verifying(Arc::clone(&core));
            verify(&core, record).await;
        });
    }
    count
}

/// Counts one verification until it is dropped.
struct Verifying(Arc<Core>);

impl Drop for Verifying {
    fn drop(&mut self) {
        self.0.verifying.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn verify(core: &Arc<Core>, record: EndpointRecord) {
    let learned = match ask(core, &record).await {
        Ok(Ok(proof)) => {
            let until = core.timeline.now().saturating_add_unsigned(core.options.endpoints.proof_ms);
            Learned::Proven(proof, until)
        }
        Ok(Err(category)) => Learned::Refused { category, random: core.random_number() },
        Err(error) => {
            tracing::error!(endpoint = %record.key, %error, "an endpoint cannot be verified");
            Learned::Refused { category: Category::ProtocolError, random: core.random_number() }
        }
    };
    let count = if matches!(learned, Learned::Proven(..)) { &core.counters.proven } else { &core.counters.refused };
    count.fetch_add(1, Ordering::Relaxed);
    let mut ops = vec![target::learned(core, record.key, learned)];
    let after = record.standing.learn(&core.options.endpoints, learned, core.timeline.now());
    if let Some((reason, _)) = after.disabled.filter(|_| record.standing.state != EndpointState::Disabled) {
        tracing::warn!(endpoint = %record.key, reason = reason.as_str(), "an endpoint is disabled");
        core.counters.disabled.fetch_add(1, Ordering::Relaxed);
        ops.extend(receipt::disabled(core, &record.owner.principal, None, reason));
    }
    // What is not recorded is asked again.
    if commit(core, Durability::Disk, ops).await.is_none() {
        commit(core, Durability::Disk, vec![target::learned(core, record.key, learned)]).await;
    }
    core.work.notify_one();
}

/// Asks the endpoint itself, then its origin.
async fn ask(core: &Core, record: &EndpointRecord) -> Result<Result<Proof, Category>> {
    let Some(route) = plan::read(&record.owner.route)?.pop() else { return Ok(Err(Category::ProtocolError)) };
    let Some(text) = route.endpoint.clone() else { return Ok(Err(Category::ProtocolError)) };
    let Ok(endpoint) = Endpoint::parse(&text, &core.options.address) else { return Ok(Err(Category::Denied)) };
    let refused = match challenge(core, &text, route).await? {
        Ok(()) => return Ok(Ok(Proof::Challenge)),
        Err(category) => category,
    };
    // One that cannot be reached has nothing to say by another way either.
    let answered =
        matches!(refused, Category::ChallengeFailed | Category::Http3xx | Category::Http4xx | Category::Http5xx);
    if answered && well_known(core, &endpoint).await {
        return Ok(Ok(Proof::WellKnown));
    }
    Ok(Err(refused))
}

async fn challenge(core: &Core, endpoint: &str, route: Route) -> Result<Result<(), Category>> {
    let nonce = format!("{}{}", encode_id(core.random()?), encode_id(core.random()?));
    let id = format!("{VERIFICATION_ID_PREFIX}{}", encode_id(core.random()?));
    let body = Bytes::from(challenge_json(&nonce));
    let headers = signed(core, route, &id, &body)?;
    let keep = MAX_CHALLENGE_ANSWER_BYTES;
    let attempt = Attempt { endpoint: endpoint.to_owned(), headers, body: Some(body), keep_for: None, keep };
    Ok(match core.sender.send(attempt).await {
        Sent::Response { status: 200..=299, body, .. } if is_challenge_answer(&body, &nonce) => Ok(()),
        Sent::Response { status, .. } => Err(Category::of_status(status).unwrap_or(Category::ChallengeFailed)),
        Sent::Failed(category) => Err(category),
        Sent::Confirmed | Sent::NotTaken => Err(Category::ProtocolError),
    })
}

/// Whether the endpoint's origin publishes that it takes webhooks there. Neither signature nor headers of the route go
/// along: the document is everybody's.
async fn well_known(core: &Core, endpoint: &Endpoint) -> bool {
    let url = receiver_document_url(endpoint.scheme(), endpoint.host_header());
    let keep = MAX_RECEIVER_DOCUMENT_BYTES;
    let attempt = Attempt { endpoint: url, headers: Vec::new(), body: None, keep_for: None, keep };
    match core.sender.send(attempt).await {
        Sent::Response { status: 200, body, .. } => is_receiver(&body, endpoint.path_and_query()),
        Sent::Response { .. } | Sent::Failed(_) | Sent::Confirmed | Sent::NotTaken => false,
    }
}
