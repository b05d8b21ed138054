//! Streams, writers and tails.

use std::ffi::c_char;

use tidings_bridge::{self as bridge, Append, Bytes, Durability, Error, Place, ReadLimits, Stream, Tail, Writer};

use crate::answer::tidings_answer;
use crate::batch::{BATCHES, tidings_batch};
use crate::entry::{Result, entry, tidings_result};
use crate::handle::Table;
use crate::memory::{self, Out, tidings_bytes, tidings_pair};
use crate::port::{Waiter, tidings_port};
use crate::text::{give, tidings_text};

/// A stream, by its key.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_stream {
    _private: [u8; 0],
}

/// The right of one writer to number a stream in memory.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_writer {
    _private: [u8; 0],
}

/// A reader that replays and goes on live.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_tail {
    _private: [u8; 0],
}

/// Survives the death of the process.
pub const TIDINGS_PROCESS: i32 = 0;
/// Survives a loss of power.
pub const TIDINGS_DISK: i32 = 1;

/// The place before the earliest event that is retained.
pub const TIDINGS_EARLIEST: i64 = -1;

/// Closes the stream in the same step.
pub const TIDINGS_APPEND_CLOSE: u32 = 1;
/// Gives up the oldest events that wait for the store, where the append would be refused as `TIDINGS_CONGESTED`. Only for
/// a writer.
pub const TIDINGS_APPEND_GIVE_UP: u32 = 2;

pub(crate) static STREAMS: Table<Stream> = Table::of_process(5);
pub(crate) static WRITERS: Table<Writer> = Table::of_process(6);
pub(crate) static TAILS: Table<Tail> = Table::of_process(7);

pub(crate) fn durability(value: i32) -> Result<Durability> {
    match value {
        TIDINGS_PROCESS => Ok(Durability::Process),
        TIDINGS_DISK => Ok(Durability::Disk),
        _ => Err(Error::argument("durability", "must be TIDINGS_PROCESS or TIDINGS_DISK")),
    }
}

fn flags(value: u32, known: u32) -> Result<u32> {
    if value & !known != 0 {
        return Err(Error::argument("flags", "has a bit that means nothing here"));
    }
    Ok(value)
}

/// # Safety
/// As [`memory::text`].
pub(crate) unsafe fn place(cursor: *const c_char, cursor_len: usize, after: i64) -> Result<Place> {
    // SAFETY: the caller's promise.
    match unsafe { memory::optional_text("cursor", cursor, cursor_len) }? {
        Some(cursor) => Ok(Place::Cursor(cursor.to_owned())),
        None if after == TIDINGS_EARLIEST => Ok(Place::Earliest),
        None => match u64::try_from(after) {
            Ok(seq) => Ok(Place::Seq(seq)),
            Err(_) => Err(Error::argument("after", "must be an event's number or TIDINGS_EARLIEST")),
        },
    }
}

/// Appends `count` events of one type, numbered inside the commit, after which it is done: all of them or none. The answer
/// is a number, the first event's. `key`, unless it is NULL, is a text under which this is appended once: whoever appends
/// under it again gets the same number. `identity` says whom and what the events belong to: `task`, `session`, `turn`,
/// `toolCall`, `sourceType`. `flags`: 0 or `TIDINGS_APPEND_CLOSE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_append(
    stream: *const tidings_stream,
    kind: *const c_char,
    kind_len: usize,
    payloads: *const tidings_bytes,
    count: usize,
    identity: *const tidings_pair,
    identity_count: usize,
    key: *const c_char,
    key_len: usize,
    durability: i32,
    flags: u32,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_stream_append", || {
        // SAFETY: the header's conventions.
        let (waiter, kind, payloads, identity, key) = unsafe {
            (
                Waiter::new(port, token, answer)?,
                memory::text("kind", kind, kind_len)?,
                memory::several("payloads", payloads, count)?,
                memory::pairs("identity", identity, identity_count)?,
                memory::optional_text("key", key, key_len)?,
            )
        };
        if payloads.is_empty() {
            return Err(Error::argument("count", "must be at least 1"));
        }
        let append = Append {
            kind: kind.to_owned(),
            payloads: payloads.into_iter().map(Bytes::copy_from_slice).collect(),
            identity: bridge::identity(&identity)?,
            close: self::flags(flags, TIDINGS_APPEND_CLOSE)? != 0,
            once: key.map(str::to_owned),
            durability: self::durability(durability)?,
        };
        waiter.begin(STREAMS.get("stream", stream)?.append(append))
    })
}

/// Closes a stream: nothing is appended after that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_close(
    stream: *const tidings_stream,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_stream_close", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(STREAMS.get("stream", stream)?.close())
    })
}

/// Takes the right to number the stream in memory from whoever has it. The answer has a writer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_claim(
    stream: *const tidings_stream,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_stream_claim", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(STREAMS.get("stream", stream)?.claim())
    })
}

/// Reads committed events after a place, at most `limit`: after a cursor; or, where `cursor` is NULL, after the event of
/// the number `after`, or from `TIDINGS_EARLIEST`. Blocks for the read. Free the batch with `tidings_batch_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_read(
    stream: *const tidings_stream,
    cursor: *const c_char,
    cursor_len: usize,
    after: i64,
    limit: u32,
    batch: *mut *mut tidings_batch,
) -> tidings_result {
    entry("tidings_stream_read", || {
        // SAFETY: the header's conventions.
        let (out, place) = unsafe { (Out::new("batch", batch)?, place(cursor, cursor_len, after)?) };
        let limit = bridge::limit(i64::from(limit))?;
        out.set(BATCHES.insert(STREAMS.get("stream", stream)?.read(&place, limit)?));
        Ok(())
    })
}

/// A tail after a place, given as for `tidings_stream_read`. Blocks for a read. Free it with `tidings_tail_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_tail(
    stream: *const tidings_stream,
    cursor: *const c_char,
    cursor_len: usize,
    after: i64,
    tail: *mut *mut tidings_tail,
) -> tidings_result {
    entry("tidings_stream_tail", || {
        // SAFETY: the header's conventions.
        let (out, place) = unsafe { (Out::new("tail", tail)?, place(cursor, cursor_len, after)?) };
        out.set(TAILS.insert(STREAMS.get("stream", stream)?.tail(&place)?));
        Ok(())
    })
}

/// Frees a stream's handle; the stream stays. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_free(stream: *mut tidings_stream) -> tidings_result {
    entry("tidings_stream_free", || STREAMS.free("stream", stream))
}

/// Appends one event and sets its number, in microseconds and without waiting for the commit. `flags`: 0 or
/// `TIDINGS_APPEND_CLOSE`, `TIDINGS_APPEND_GIVE_UP`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_append(
    writer: *const tidings_writer,
    kind: *const c_char,
    kind_len: usize,
    payload: *const u8,
    payload_len: usize,
    identity: *const tidings_pair,
    identity_count: usize,
    flags: u32,
    seq: *mut u64,
) -> tidings_result {
    entry("tidings_writer_append", || {
        // SAFETY: the header's conventions.
        let (out, kind, payload) = unsafe {
            (
                Out::new("seq", seq)?,
                memory::text("kind", kind, kind_len)?,
                memory::bytes("payload", payload, payload_len)?,
            )
        };
        let flags = self::flags(flags, TIDINGS_APPEND_CLOSE | TIDINGS_APPEND_GIVE_UP)?;
        let identity = if identity_count == 0 {
            None
        } else {
            // SAFETY: the header's conventions.
            bridge::identity(&unsafe { memory::pairs("identity", identity, identity_count) }?)?
        };
        let writer = WRITERS.get("writer", writer)?;
        // What closes a stream is never refused for want of room.
        out.set(if flags & TIDINGS_APPEND_CLOSE != 0 {
            writer.append_all(kind, &[payload], identity.as_ref(), true)?.start
        } else if flags & TIDINGS_APPEND_GIVE_UP != 0 {
            writer.append_giving_up(kind, payload, identity.as_ref())?
        } else {
            writer.append(kind, payload, identity.as_ref())?
        });
        Ok(())
    })
}

/// The cursor of a reader that has the event of that number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_cursor(
    writer: *const tidings_writer,
    seq: u64,
    cursor: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_writer_cursor", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("cursor", cursor) }?;
        give(out, WRITERS.get("writer", writer)?.cursor_after(seq))
    })
}

/// The cursor of a reader that has everything that was appended so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_last_cursor(
    writer: *const tidings_writer,
    cursor: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_writer_last_cursor", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("cursor", cursor) }?;
        give(out, WRITERS.get("writer", writer)?.cursor()?)
    })
}

/// Whether more waits for the store than is good: sets 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_congested(
    writer: *const tidings_writer,
    congested: *mut i32,
) -> tidings_result {
    entry("tidings_writer_congested", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("congested", congested) }?;
        out.set(i32::from(WRITERS.get("writer", writer)?.congested()));
        Ok(())
    })
}

/// Whether the stream takes no more events from this writer: sets 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_closed(writer: *const tidings_writer, closed: *mut i32) -> tidings_result {
    entry("tidings_writer_closed", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("closed", closed) }?;
        out.set(i32::from(WRITERS.get("writer", writer)?.closed()));
        Ok(())
    })
}

/// Closes the stream after the last event, without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_close(writer: *const tidings_writer) -> tidings_result {
    entry("tidings_writer_close", || WRITERS.get("writer", writer)?.close())
}

/// Waits until everything that was appended before is committed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_flush(
    writer: *const tidings_writer,
    durability: i32,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_writer_flush", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(WRITERS.get("writer", writer)?.flush(self::durability(durability)?))
    })
}

/// Frees a writer. What was appended is committed; the stream stays open. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_writer_free(writer: *mut tidings_writer) -> tidings_result {
    entry("tidings_writer_free", || WRITERS.free("writer", writer))
}

/// Waits for events. The answer is a batch: take it with `tidings_answer_batch`. One at a time waits for a tail; who is
/// cancelled loses nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_tail_next(
    tail: *const tidings_tail,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_tail_next", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(TAILS.get("tail", tail)?.next(ReadLimits::default()))
    })
}

/// Where the reader stands after all that was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_tail_cursor(
    tail: *const tidings_tail,
    cursor: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_tail_cursor", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("cursor", cursor) }?;
        give(out, TAILS.get("tail", tail)?.cursor()?)
    })
}

/// Whether the stream is open and yet nothing more is to come, for the process of its writer is gone: sets 1 or 0. Only a new
/// claim continues such a stream; what is committed may still have to be read. Reads the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_tail_abandoned(tail: *const tidings_tail, abandoned: *mut i32) -> tidings_result {
    entry("tidings_tail_abandoned", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("abandoned", abandoned) }?;
        out.set(i32::from(TAILS.get("tail", tail)?.abandoned()?));
        Ok(())
    })
}

/// Ends a tail: whoever waits for it is told the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_tail_close(tail: *const tidings_tail) -> tidings_result {
    entry("tidings_tail_close", || {
        TAILS.get("tail", tail)?.close();
        Ok(())
    })
}

/// Closes and frees a tail. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_tail_free(tail: *mut tidings_tail) -> tidings_result {
    entry("tidings_tail_free", || {
        if let Some(gone) = TAILS.remove("tail", tail)? {
            gone.close();
        }
        Ok(())
    })
}
