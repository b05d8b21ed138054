//! The pure rules, by subject.

mod address;
mod call;
mod config;
mod delivery;
mod endpoint;
mod fanout;
mod firing;
mod id;
mod input;
mod stream;
mod trigger;
mod webhook;
mod wire;

pub(crate) use address::policy as address_policy;
pub(crate) use config::faults_told;

use crate::Answer;
use crate::given::Given;

/// The answer to a rule's question; none where this is no rule.
pub(crate) fn answer(op: &str, given: &Given<'_>) -> Option<Answer> {
    let given = *given;
    Some(match op {
        "id.text" => id::text(given),
        "id.parse" => id::parse(given),
        "request_id.parse" => id::request(given),
        "cursor.text" => stream::cursor_text(given),
        "cursor.parse" => stream::cursor_parse(given),
        "gap.cursor" => stream::gap_cursor(given),
        "gap.after" => stream::gap_after(given),
        "stream.line" => stream::line(given),
        "retention.first_kept" => stream::first_kept(given),
        "retention.total" => stream::total(given),
        "retention.expired" => stream::expired(given),
        "config.check" => config::check(given),
        "trigger.name" => call::trigger_name(given),
        "route.choose" => call::choose_route(given),
        "condition.hold" => trigger::conditions(given),
        "every.next" => trigger::every(given),
        "group.verdict" => trigger::group(given),
        "redact.bytes" => trigger::redact(given),
        "outcome.classify" => call::classify(given),
        "outcome.task_status" => call::task_status(given),
        "input.outstanding" => input::outstanding(given),
        "input.known" => input::known(given),
        "input.keys" => input::keys(given),
        "input.answers" => input::answers(given),
        "call.step" => call::row(given),
        "call.lost_connection" => call::lost(given),
        "call.timeout" => call::timeout(given),
        "delivery.step" => delivery::row(given),
        "delivery.next" => delivery::following(given),
        "delivery.postpone" => delivery::put_off(given),
        "delivery.deadline" => delivery::expiry(given),
        "delivery.category" => delivery::category(given),
        "delivery.public_category" => delivery::public_category(given),
        "endpoint.step" => endpoint::row(given),
        "breaker.step" => endpoint::breaker(given),
        "rate.take" => endpoint::rate(given),
        "webhook.challenge" => endpoint::challenge(given),
        "webhook.receiver" => endpoint::receiver(given),
        "backoff.ceiling" => delivery::ceiling(given),
        "backoff.jitter" => delivery::jitter(given),
        "retry_after.parse" => delivery::retry_after(given),
        "webhook.sign" => webhook::signed(given),
        "webhook.verify" | "webhook.repeated" => webhook::verified(given),
        "webhook.no_secret" => webhook::no_secret(given),
        "webhook.secret" => webhook::secret(given),
        "webhook.message_id" => webhook::message_id(given),
        "webhook.headers" => webhook::headers(given),
        "jwe.decrypt" => webhook::decrypted(given),
        "jwe.kdf" => webhook::derived(given),
        "address.check" => address::verdict(given),
        "address.network" => address::network(given),
        "address.policy" => address::settings(given),
        "endpoint.parse" => address::endpoint(given),
        "endpoint.answers" => address::answers(given),
        "body.bytes" => firing::body(given),
        "batch.bytes" => firing::batch(given),
        "cursor.lowered" => firing::lowered(given),
        "proxy.connect" => address::proxy(given),
        "ack.bytes" => firing::acknowledgement(given),
        "undelivered.bytes" => firing::undelivered(given),
        "fanout.offered" => fanout::offered(given),
        "fanout.filter" => fanout::filter(given),
        "fanout.frames" => fanout::frames(given),
        "notice.frame" => fanout::frame_of(given),
        "progress.report" => fanout::progress(given),
        "log.passes" => fanout::log(given),
        "cancel.race" => fanout::cancel(given),
        "time.rfc3339" => wire::rfc3339(given),
        "wire.names" => wire::name(given),
        "wire.capability" => wire::capability(given),
        "error.code" => wire::error_code(given),
        _ => return None,
    })
}
