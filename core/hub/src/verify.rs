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
    MAX_CHALLENGE_ANSWER_BYTES, MAX_RECEIVER_DOCUMENT_BYTES, Receivers, challenge_json, is_challenge_answer,
    receiver_document_url,
};
use tidings_proto::wire::sep3415::VERIFICATION_ID_PREFIX;
use tidings_store::{Done, Durability, EndpointRecord, Op, OriginProof};
use tracing::Instrument;

use crate::background::commit;
use crate::core::{Core, millis};
use crate::dispatch::Attempts;
use crate::error::Result;
use crate::plan;
use crate::receipt;
use crate::request::signed;
use crate::sender::{Attempt, JSON_MEDIA_TYPE, Sent};
use crate::target;

/// Verifications under way at a time: they are cheap, and none may hold up another for long.
const AT_ONCE: u32 = 32;
/// After how long an endpoint is taken by somebody else, besides the time that its requests may take.
const SPARE: Duration = Duration::from_secs(10);
/// At most so many other endpoints of its principal are looked at when a document has been found.
const OTHERS: u32 = 1_000;

/// Takes endpoints that have to be verified and starts to ask them. Says how many.
pub(crate) async fn start(core: &Arc<Core>, in_flight: &mut Attempts, now: StoreMillis) -> usize {
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
        let span = tracing::debug_span!("verify", endpoint = %record.key);
        let verify = async move {
            let _counted = Verifying(Arc::clone(&core));
            verify(&core, record).await;
            None
        };
        in_flight.spawn(verify.instrument(span));
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
    let (answer, document) = match ask(core, &record).await {
        Ok((answer, document)) => (answer, document),
        Err(error) => {
            tracing::error!(endpoint = %record.key, %error, "an endpoint cannot be verified");
            (Err(Category::ProtocolError), None)
        }
    };
    let learned = match answer {
        Ok((proof, until)) => Learned::Proven(proof, until),
        Err(category) => Learned::Refused { category, random: core.random_number() },
    };
    match learned {
        Learned::Refused { category, .. } => {
            tracing::debug!(%category, "an endpoint did not prove that it wants webhooks");
        }
        Learned::Proven(proof, _) => tracing::debug!(proof = proof.as_str(), "an endpoint is verified"),
        _ => {}
    }
    let count = if matches!(learned, Learned::Proven(..)) { &core.counters.proven } else { &core.counters.refused };
    count.fetch_add(1, Ordering::Relaxed);
    let mut ops = vec![target::learned(core, record.key, learned)];
    ops.extend(document.into_iter().flat_map(|proof| proves(core, &record, proof)));
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

/// How an endpoint was proven and until when that counts, or why it was not.
type Answer = Result<(Proof, StoreMillis), Category>;

/// Asks the endpoint itself, then its origin, unless that has said enough before. Answers as well what the origin
/// publishes, if it was asked and named any path.
async fn ask(core: &Core, record: &EndpointRecord) -> Result<(Answer, Option<OriginProof>)> {
    let refused = |category| Ok((Err(category), None));
    let Some(route) = plan::read(&record.owner.route)?.pop() else { return refused(Category::ProtocolError) };
    let Some(text) = route.endpoint.clone() else { return refused(Category::ProtocolError) };
    let Ok(endpoint) = Endpoint::parse(&text, &core.options.address) else { return refused(Category::Denied) };
    if let Some(until) = proven_before(core, record, &endpoint)? {
        return Ok((Ok((Proof::WellKnown, until)), None));
    }
    let proven = |proof| {
        let until = core.timeline.now().saturating_add_unsigned(core.options.endpoints.proof_ms);
        (proof, until)
    };
    let category = match challenge(core, &text, route).await? {
        Ok(()) => return Ok((Ok(proven(Proof::Challenge)), None)),
        Err(category) => category,
    };
    // One that cannot be reached has nothing to say by another way either.
    let answered =
        matches!(category, Category::ChallengeFailed | Category::Http3xx | Category::Http4xx | Category::Http5xx);
    if !answered {
        return refused(category);
    }
    let receivers = well_known(core, &endpoint).await;
    let (proof, until) = proven(Proof::WellKnown);
    let document = (!receivers.is_empty()).then(|| OriginProof {
        principal: record.owner.principal.clone(),
        origin: endpoint.origin().to_owned(),
        document: receivers.to_json(),
        until,
    });
    let answer = if receivers.name(endpoint.path_and_query()) { Ok((proof, until)) } else { Err(category) };
    Ok((answer, document))
}

/// Until when what the endpoint's origin published proves it, by what is kept of that. A disabled endpoint has to be asked
/// anew, and so has one whose proof is to be renewed.
fn proven_before(core: &Core, record: &EndpointRecord, endpoint: &Endpoint) -> Result<Option<StoreMillis>> {
    let counts_for = match record.standing.state {
        EndpointState::Disabled => return Ok(None),
        EndpointState::Unverified => 1,
        EndpointState::Verified => (core.options.endpoints.proof_ms / 4).cast_signed(),
    };
    let Some(kept) = core.store.origin_proof(&record.owner.principal, endpoint.origin())? else { return Ok(None) };
    let counts = kept.until.saturating_sub(core.timeline.now()) >= counts_for;
    let names = || Receivers::parse(kept.document.as_bytes()).name(endpoint.path_and_query());
    Ok((counts && names()).then_some(kept.until))
}

/// Keeps what an origin publishes, with all that it proves besides: other endpoints of the same principal that wait for
/// their verification.
fn proves(core: &Core, record: &EndpointRecord, proof: OriginProof) -> Vec<Op> {
    let receivers = Receivers::parse(proof.document.as_bytes());
    let named = |other: &EndpointRecord| {
        let route = plan::read(&other.owner.route).ok()?.pop()?;
        let endpoint = Endpoint::parse(route.endpoint.as_deref()?, &core.options.address).ok()?;
        (endpoint.origin() == proof.origin && receivers.name(endpoint.path_and_query())).then_some(other.key)
    };
    // One that is not reached this way is proven when it is asked.
    let others = core.store.endpoints(Some(&record.owner.principal), OTHERS).unwrap_or_default();
    let waiting = others.iter().filter(|other| {
        other.key != record.key
            && other.owner.host == record.owner.host
            && other.standing.state == EndpointState::Unverified
            && other.standing.verify_at.is_some()
    });
    let learned = Learned::Proven(Proof::WellKnown, proof.until);
    let mut ops: Vec<Op> = waiting.filter_map(named).map(|key| target::learned(core, key, learned)).collect();
    ops.push(Op::ProveOrigin(Box::new(proof)));
    ops
}

async fn challenge(core: &Core, endpoint: &str, route: Route) -> Result<Result<(), Category>> {
    let nonce = format!("{}{}", encode_id(core.random()?), encode_id(core.random()?));
    let id = format!("{VERIFICATION_ID_PREFIX}{}", encode_id(core.random()?));
    let body = Bytes::from(challenge_json(&nonce));
    let headers = signed(core, &route, &id, &body)?;
    let keep = MAX_CHALLENGE_ANSWER_BYTES;
    let (endpoint, media_type) = (endpoint.to_owned(), JSON_MEDIA_TYPE);
    let attempt = Attempt { endpoint, headers, body: Some(body), media_type, keep_for: None, keep };
    Ok(match core.sender.send(attempt).await {
        Sent::Response { status: 200..=299, body, .. } if is_challenge_answer(&body, &nonce) => Ok(()),
        Sent::Response { status, .. } => Err(Category::of_status(status).unwrap_or(Category::ChallengeFailed)),
        Sent::Failed(category) => Err(category),
        Sent::Confirmed | Sent::NotTaken => Err(Category::ProtocolError),
    })
}

/// Where the endpoint's origin publishes that it takes webhooks. Neither signature nor headers of the route go
/// along: the document is everybody's.
async fn well_known(core: &Core, endpoint: &Endpoint) -> Receivers {
    let url = receiver_document_url(endpoint.scheme(), endpoint.host_header());
    let keep = MAX_RECEIVER_DOCUMENT_BYTES;
    let (headers, media_type) = (Vec::new(), JSON_MEDIA_TYPE);
    let attempt = Attempt { endpoint: url, headers, body: None, media_type, keep_for: None, keep };
    match core.sender.send(attempt).await {
        Sent::Response { status: 200, body, .. } => Receivers::parse(&body),
        Sent::Response { .. } | Sent::Failed(_) | Sent::Confirmed | Sent::NotTaken => Receivers::default(),
    }
}
