//! The request of one attempt: which bytes, signed how.

use std::borrow::Cow;

use bytes::Bytes;
use tidings_proto::config::Route;
use tidings_proto::firing::{batch_body, batch_id};
use tidings_proto::webhook::{
    ID_HEADER, JWE_MEDIA_TYPE, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER, TRACEPARENT_HEADER, encrypt, sign,
};
use tidings_store::Delivery;

use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::sender::{Attempt, JSON_MEDIA_TYPE};

/// The request of one attempt: the stored bytes, where the route wants that encrypted, the same each time, and signed anew
/// with the attempt's own timestamp. A route that batches gets the form of a batch for a single one, too.
pub(crate) fn prepare(core: &Core, delivery: &Delivery, unit: &[Delivery], route: &Route) -> Result<Attempt> {
    let mut route = Cow::Borrowed(route);
    let Some(endpoint) = route.endpoint.clone() else {
        return Err(Error::new(ErrorCode::Internal, "the stored route has no endpoint"));
    };
    let (id, body) = if route.batch.is_some() {
        keep_common_trace(core, &mut route, unit)?;
        let id = batch_id(unit.iter().map(|delivery| delivery.new.event_id.as_str()));
        (id.to_string(), Bytes::from(batch_body(unit.iter().map(|delivery| &delivery.new.body[..]))))
    } else {
        (delivery.new.event_id.clone(), delivery.new.body.clone())
    };
    let (body, media_type) = encrypted(&route, body)?;
    let headers = signed(core, &route, &id, &body)?;
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
fn keep_common_trace(core: &Core, route: &mut Cow<'_, Route>, unit: &[Delivery]) -> Result<()> {
    let is_trace = |name: &str| name.eq_ignore_ascii_case(TRACEPARENT_HEADER);
    let mut common = None;
    for delivery in unit {
        let own = core.routes.read(&delivery.new.route)?;
        let own = own.headers.iter().find(|(name, _)| is_trace(name)).map(|(_, value)| value.clone());
        match &common {
            None => common = Some(own),
            Some(seen) if *seen == own => {}
            Some(_) => {
                route.to_mut().headers.retain(|(name, _)| !is_trace(name));
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The headers of a request that a route asks for, signed now: with the route's own secret, or else with the operator's,
/// where there is one.
pub(crate) fn signed(core: &Core, route: &Route, id: &str, body: &[u8]) -> Result<Vec<(String, String)>> {
    let timestamp = core.timeline.wall().div_euclid(1_000);
    let mut all = vec![(ID_HEADER.to_owned(), id.to_owned()), (TIMESTAMP_HEADER.to_owned(), timestamp.to_string())];
    let own = route.secret.as_ref().map(|secret| Secret::parse(secret.expose())).transpose();
    let own = own.map_err(|fault| Error::new(ErrorCode::Internal, format!("the stored secret: {fault}")))?;
    let secrets: Vec<Secret> = match own {
        Some(secret) => vec![secret],
        None => core.options.default_secret.iter().chain(&core.options.previous_secret).cloned().collect(),
    };
    if !secrets.is_empty() {
        all.push((SIGNATURE_HEADER.to_owned(), sign(&secrets, id, timestamp, body)));
    }
    all.extend(route.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    Ok(all)
}
