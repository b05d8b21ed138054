//! The exports as C calls them, pointers and all: what Miri looks over (`make miri`). What they do is tested from C and
//! Python, in `tests/c` and `tests/conformance`.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::answer::{TIDINGS_ANSWER_BATCH, TIDINGS_ANSWER_NUMBER};
use crate::answer::{tidings_answer, tidings_answer_batch, tidings_answer_free, tidings_answer_kind};
use crate::batch::{tidings_batch_count, tidings_batch_cursor, tidings_batch_event, tidings_batch_free, tidings_event};
use crate::call::{TIDINGS_BEGIN_REQUEST_ID, tidings_begin_free, tidings_begin_new, tidings_begin_set_text};
use crate::entry::{TIDINGS_INVALID_ARGUMENT, TIDINGS_OK, TIDINGS_UNVERIFIED, tidings_last_error, tidings_result_name};
use crate::fanout::{tidings_profile_free, tidings_profile_honoured, tidings_profile_listens, tidings_profile_new};
use crate::hub::{TIDINGS_OPTION_ALLOW_NETWORK, tidings_options_free, tidings_options_new, tidings_options_set_text};
use crate::hub::{tidings_hub_close, tidings_hub_free, tidings_hub_new, tidings_hub_stream};
use crate::memory::{tidings_bytes, tidings_pair};
use crate::port::{tidings_port_drain, tidings_port_free, tidings_port_new_with_wake, tidings_port_take};
use crate::progress::{tidings_progress_free, tidings_progress_new, tidings_progress_report};
use crate::stream::{
    TIDINGS_EARLIEST, TIDINGS_PROCESS, tidings_stream_append, tidings_stream_free, tidings_stream_tail,
};
use crate::stream::{tidings_tail_free, tidings_tail_next};
use crate::text::{tidings_text, tidings_text_free, tidings_text_get};
use crate::texts::{tidings_texts_count, tidings_texts_free, tidings_texts_get};
use crate::webhook::{tidings_webhook_free, tidings_webhook_new, tidings_webhook_sign, tidings_webhook_verify};

const fn chars(text: &str) -> *const c_char {
    text.as_ptr().cast()
}

fn bytes(text: &str) -> tidings_bytes {
    tidings_bytes { data: text.as_ptr(), len: text.len() }
}

fn pair(name: &'static str, value: &str) -> tidings_pair {
    tidings_pair { name: chars(name), name_len: name.len(), value: chars(value), value_len: value.len() }
}

/// What a text says; it is freed.
fn taken(text: *mut tidings_text) -> String {
    let (mut data, mut len) = (null(), 0);
    // SAFETY: live places, and a handle that is checked.
    unsafe {
        assert_eq!(tidings_text_get(text, &raw mut data, &raw mut len), TIDINGS_OK);
        let held = std::slice::from_raw_parts(data.cast::<u8>(), len + 1);
        assert_eq!(held[len], 0, "a NUL behind it");
        let said = String::from_utf8(held[..len].to_vec()).unwrap();
        assert_eq!(tidings_text_free(text), TIDINGS_OK);
        assert_eq!(tidings_text_free(text), TIDINGS_INVALID_ARGUMENT, "freed twice");
        said
    }
}

fn last_error() -> String {
    let mut message = null_mut();
    // SAFETY: a live place.
    assert_eq!(unsafe { tidings_last_error(&raw mut message) }, TIDINGS_OK);
    taken(message)
}

#[test]
fn a_webhook_signed_and_verified() {
    let secrets = [bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")];
    let body = r#"{"n":1}"#;
    let (mut webhook, mut signature) = (null_mut(), null_mut());
    // SAFETY: live places and arrays of the lengths that are said.
    unsafe {
        assert_eq!(tidings_webhook_new(secrets.as_ptr(), secrets.len(), &raw mut webhook), TIDINGS_OK);
        let signed = tidings_webhook_sign(
            webhook,
            chars("msg_1"),
            5,
            1_700_000_000,
            body.as_ptr(),
            body.len(),
            &raw mut signature,
        );
        assert_eq!(signed, TIDINGS_OK);
        let signature = taken(signature);
        let headers = [
            pair("webhook-id", "msg_1"),
            pair("webhook-timestamp", "1700000000"),
            pair("webhook-signature", &signature),
        ];
        for (now, expected) in [(1_700_000_010, TIDINGS_OK), (1_700_009_999, TIDINGS_UNVERIFIED)] {
            let (data, count) = (headers.as_ptr(), headers.len());
            assert_eq!(tidings_webhook_verify(webhook, body.as_ptr(), body.len(), data, count, now, 300), expected);
        }
        assert_eq!(tidings_webhook_free(webhook), TIDINGS_OK);
    }
}

#[test]
fn setters_and_what_they_refuse() {
    let (mut options, mut begin, mut name) = (null_mut(), null_mut(), null());
    // SAFETY: live places and texts of the lengths that are said.
    unsafe {
        assert_eq!(tidings_options_new(&raw mut options), TIDINGS_OK);
        assert_eq!(
            tidings_options_set_text(options, TIDINGS_OPTION_ALLOW_NETWORK, chars("10.0.0.0/8"), 10),
            TIDINGS_OK
        );
        assert_eq!(tidings_options_set_text(options, 999, chars("x"), 1), TIDINGS_INVALID_ARGUMENT);
        assert!(last_error().starts_with("option: "));
        assert_eq!(tidings_options_free(options), TIDINGS_OK);
        assert_eq!(tidings_begin_new(&raw mut begin), TIDINGS_OK);
        assert_eq!(tidings_begin_set_text(begin, TIDINGS_BEGIN_REQUEST_ID, chars("{}"), 2), TIDINGS_INVALID_ARGUMENT);
        assert_eq!(tidings_begin_free(begin), TIDINGS_OK);
        assert_eq!(tidings_result_name(TIDINGS_UNVERIFIED, &raw mut name), TIDINGS_OK);
        assert_eq!(std::ffi::CStr::from_ptr(name), c"unverified");
    }
}

#[test]
fn a_profile_and_progress() {
    let server = r#"{"tools":{"listChanged":true}}"#;
    let (mut profile, mut progress, mut listens) = (null_mut(), null_mut(), 0);
    let (mut honoured, mut params, mut why) = (null_mut(), null_mut(), null_mut());
    // SAFETY: live places and texts of the lengths that are said.
    unsafe {
        let (version, client) = ("2026-07-28", "{}");
        let made = tidings_profile_new(
            chars(version),
            version.len(),
            chars(server),
            server.len(),
            chars(client),
            client.len(),
            &raw mut profile,
        );
        assert_eq!(made, TIDINGS_OK);
        assert_eq!(tidings_profile_listens(profile, &raw mut listens), TIDINGS_OK);
        assert_eq!(listens, 1);
        let filter = r#"{"toolsListChanged":true,"promptsListChanged":true}"#;
        assert_eq!(tidings_profile_honoured(profile, chars(filter), filter.len(), &raw mut honoured), TIDINGS_OK);
        assert_eq!(taken(honoured), r#"{"toolsListChanged":true}"#);
        assert_eq!(tidings_profile_free(profile), TIDINGS_OK);

        assert_eq!(tidings_progress_new(chars("0"), 1, 0, &raw mut progress), TIDINGS_OK);
        for (value, goes) in [(1.0, true), (1.0, false)] {
            let reported =
                tidings_progress_report(progress, value, f64::NAN, null(), 0, 1, &raw mut params, &raw mut why);
            assert_eq!(reported, TIDINGS_OK);
            assert_eq!((params.is_null(), why.is_null()), (!goes, goes));
            if goes {
                assert_eq!(taken(params), r#"{"progressToken":0,"progress":1}"#);
            } else {
                assert_eq!(taken(why), "not_increasing");
            }
        }
        assert_eq!(tidings_progress_free(progress), TIDINGS_OK);
    }
}

static WOKEN: AtomicU32 = AtomicU32::new(0);
static FINISHED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn wake(data: *mut c_void) {
    assert_eq!(data.addr(), 7);
    WOKEN.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn finish(data: *mut c_void) {
    assert_eq!(data.addr(), 7);
    FINISHED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_port_lets_go_of_its_user_data() {
    let (mut port, mut tokens, mut count) = (null_mut(), [0; 2], 7);
    // SAFETY: live places, room for as many tokens as is said, and functions that take any data.
    unsafe {
        let data = std::ptr::without_provenance_mut(8);
        assert_eq!(tidings_port_new_with_wake(Some(not_woken), data, Some(finish_other), &raw mut port), TIDINGS_OK);
        assert_eq!(tidings_port_drain(port, tokens.as_mut_ptr(), tokens.len(), &raw mut count), TIDINGS_OK);
        assert_eq!((count, OTHERS_FINISHED.load(Ordering::SeqCst)), (0, 0));
        assert_eq!(tidings_port_free(port), TIDINGS_OK);
    }
    assert_eq!(OTHERS_FINISHED.load(Ordering::SeqCst), 1);
}

static OTHERS_FINISHED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn not_woken(_: *mut c_void) {}

unsafe extern "C" fn finish_other(data: *mut c_void) {
    assert_eq!(data.addr(), 8);
    OTHERS_FINISHED.fetch_add(1, Ordering::SeqCst);
}

/// One hub in memory: an append and a tail, waited for at a port that calls back.
#[test]
#[cfg_attr(miri, ignore = "a hub asks for CLOCK_BOOTTIME, which Miri does not have")]
fn an_append_and_a_tail_at_a_port() {
    let (mut hub, mut stream, mut tail, mut port) = (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut batch, mut cursor, mut state, mut count) = (null_mut(), null_mut(), 0, 0);
    let payload = [bytes("{}")];
    let mut event = std::mem::MaybeUninit::<tidings_event>::zeroed();
    // SAFETY: live places, texts of the lengths that are said, and functions that take any data.
    unsafe {
        let data = std::ptr::without_provenance_mut(7);
        assert_eq!(tidings_port_new_with_wake(Some(wake), data, Some(finish), &raw mut port), TIDINGS_OK);
        assert_eq!(tidings_hub_new(chars("memory:"), 7, null(), &raw mut hub), TIDINGS_OK);
        assert_eq!(tidings_hub_stream(hub, chars("s"), 1, chars("n"), 1, &raw mut stream), TIDINGS_OK);
        let append = |port, token, answer| {
            let (payloads, kind) = (payload.as_ptr(), chars("a.b"));
            let (identity, key) = (null(), null());
            tidings_stream_append(
                stream,
                kind,
                3,
                payloads,
                1,
                identity,
                0,
                key,
                0,
                TIDINGS_PROCESS,
                0,
                port,
                token,
                answer,
            )
        };
        let answer = waited(port, append);
        let mut kind = 0;
        assert_eq!(tidings_answer_kind(answer, &raw mut kind), TIDINGS_OK);
        assert_eq!(kind, TIDINGS_ANSWER_NUMBER);
        assert_eq!(tidings_answer_free(answer), TIDINGS_OK);

        assert_eq!(tidings_stream_tail(stream, null(), 0, TIDINGS_EARLIEST, &raw mut tail), TIDINGS_OK);
        let answer = waited(port, |port, token, answer| tidings_tail_next(tail, port, token, answer));
        assert_eq!(tidings_answer_batch(answer, &raw mut batch, &raw mut state), TIDINGS_OK);
        assert_eq!((state, tidings_answer_free(answer)), (TIDINGS_ANSWER_BATCH, TIDINGS_OK));
        assert_eq!(tidings_batch_count(batch, &raw mut count), TIDINGS_OK);
        assert_eq!(count, 1);
        assert_eq!(tidings_batch_event(batch, 0, event.as_mut_ptr(), size_of::<tidings_event>()), TIDINGS_OK);
        assert_eq!(tidings_batch_event(batch, 1, event.as_mut_ptr(), 8), TIDINGS_INVALID_ARGUMENT);
        let event = event.assume_init();
        assert_eq!(std::slice::from_raw_parts(event.payload.data, event.payload.len), b"{}");
        assert_eq!(tidings_batch_cursor(batch, usize::MAX, &raw mut cursor), TIDINGS_OK);
        assert!(taken(cursor).is_ascii());

        assert_eq!(tidings_batch_free(batch), TIDINGS_OK);
        assert_eq!(tidings_tail_free(tail), TIDINGS_OK);
        assert_eq!(tidings_stream_free(stream), TIDINGS_OK);
        let answer = waited(port, |port, token, answer| tidings_hub_close(hub, 10_000, port, token, answer));
        assert_eq!(tidings_answer_free(answer), TIDINGS_OK);
        assert_eq!(tidings_hub_free(hub), TIDINGS_OK);
        assert_eq!(tidings_port_free(port), TIDINGS_OK);
    }
    assert_eq!(FINISHED.load(Ordering::SeqCst), 1, "once, after the last wake");
}

/// What an operation comes to that was begun at a port.
fn waited(
    port: *mut crate::port::tidings_port,
    begin: impl FnOnce(*const crate::port::tidings_port, *mut u64, *mut *mut tidings_answer) -> i32,
) -> *mut tidings_answer {
    let (mut token, mut answer, mut count) = (0, null_mut(), 0);
    let mut tokens = [0; 4];
    assert_eq!(begin(port, &raw mut token, &raw mut answer), TIDINGS_OK);
    while answer.is_null() {
        // SAFETY: live places, and room for as many tokens as is said.
        unsafe {
            assert_eq!(tidings_port_drain(port, tokens.as_mut_ptr(), tokens.len(), &raw mut count), TIDINGS_OK);
            if tokens[..count].contains(&token) {
                assert_eq!(tidings_port_take(port, token, &raw mut answer), TIDINGS_OK);
            } else {
                std::thread::yield_now();
            }
        }
    }
    answer
}

#[test]
fn a_list_of_texts() {
    let (mut count, mut first) = (0, bytes(""));
    let handle = crate::texts::LISTS.insert(vec![Some("timeout".to_owned()), None]);
    // SAFETY: live places.
    unsafe {
        assert_eq!(tidings_texts_count(handle, &raw mut count), TIDINGS_OK);
        assert_eq!(count, 2);
        let size = size_of::<tidings_bytes>();
        assert_eq!(tidings_texts_get(handle, 0, &raw mut first, size), TIDINGS_OK);
        assert_eq!(std::slice::from_raw_parts(first.data, first.len), b"timeout");
        assert_eq!(tidings_texts_get(handle, 1, &raw mut first, size), TIDINGS_OK);
        assert!(first.data.is_null());
        assert_eq!(tidings_texts_free(handle), TIDINGS_OK);
    }
}
