//! The sizes and places of what C is given, on machines of 64 bits: an ABI that programs were built for.
//!
//! `tests/c/test_header.py` has the same numbers for the header, as C and C++ compilers see it.

use std::mem::offset_of;

use crate::batch::{tidings_event, tidings_gap};
use crate::call::tidings_outcome;
use crate::delivery::tidings_delivery;
use crate::fanout::{tidings_failed_peer, tidings_fanout, tidings_notice};
use crate::memory::{tidings_bytes, tidings_pair};
use crate::operate::{tidings_endpoint, tidings_stats};
use crate::outlet::tidings_host_delivery_facts;
use crate::task::tidings_task_facts;

/// Fails the build where a structure has another size, or a field another place.
macro_rules! layout {
    ($name:ident, $size:literal, $($field:ident: $at:literal),+) => {
        const _: () = {
            assert!(size_of::<$name>() == $size, concat!("the size of ", stringify!($name)));
            $(assert!(offset_of!($name, $field) == $at, concat!(stringify!($name), ".", stringify!($field)));)+
        };
    };
}

layout!(tidings_bytes, 16, data: 0, len: 8);
layout!(tidings_pair, 32, name: 0, name_len: 8, value: 16, value_len: 24);
layout!(tidings_event, 64, seq: 0, time_ms: 8, kind: 16, payload: 32, identity: 48);
layout!(tidings_gap, 32, reason: 0, has_earliest: 4, has_head: 8, earliest_seq: 16, head_seq: 24);
layout!(tidings_outcome, 12, outcome: 0, ours: 4, committed: 8);
layout!(tidings_delivery, 136, id: 0, event_id: 16, call_id: 32, principal: 48, trigger: 64, route: 80, state: 96,
    last_error: 112, attempts: 128);
layout!(tidings_fanout, 24, told: 0, skipped: 8, failed: 16);
layout!(tidings_notice, 48, peer: 0, listener: 8, method: 16, params: 32);
layout!(tidings_failed_peer, 16, peer: 0, outbox: 8);
layout!(tidings_host_delivery_facts, 168, id: 0, event_id: 16, call_id: 32, principal: 48, trigger: 64, route: 80,
    route_type: 96, endpoint: 112, body: 128, attempt: 144, signal: 152);
layout!(tidings_task_facts, 64, status: 0, json: 16, scope: 32, name: 48);
layout!(tidings_endpoint, 120, key: 0, principal: 16, host: 32, state: 48, proof: 64, disabled: 80, last_error: 96,
    failures: 112, tripped: 116);
layout!(tidings_stats, 96, groups: 0, events: 8, lost: 16, refused: 24, failures: 32, attempts: 40, delivered: 48,
    dead: 56, expired: 64, superseded: 72, in_flight: 80, failing: 88);
