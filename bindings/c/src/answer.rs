//! Answers: what operations came to.

use tidings_bridge::{self as bridge, Answer, Error, Taken};

use crate::batch::{BATCHES, tidings_batch};
use crate::call::{CALLS, tidings_call, tidings_outcome};
use crate::entry::{Result, entry, tidings_result};
use crate::handle::Table;
use crate::memory::{Out, write_sized};
use crate::outlet::{HANDED, Handed, tidings_host_delivery};
use crate::stream::{WRITERS, tidings_writer};
use crate::text::{self, TEXTS, tidings_text};

/// What an operation came to.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_answer {
    _private: [u8; 0],
}

/// It is done, and there is nothing to tell.
pub const TIDINGS_ANSWER_DONE: i32 = 0;
/// A number: `tidings_answer_number`. The first event's, for an append; 1 or 0, whether all of it was done.
pub const TIDINGS_ANSWER_NUMBER: i32 = 1;
/// Events: `tidings_answer_batch`.
pub const TIDINGS_ANSWER_BATCH: i32 = 2;
/// A tail has read everything and its stream is closed, or the tail is closed.
pub const TIDINGS_ANSWER_END: i32 = 3;
/// Another thread took what this one waited for: wait again.
pub const TIDINGS_ANSWER_AGAIN: i32 = 4;
/// A claimed stream's writer: `tidings_answer_writer`.
pub const TIDINGS_ANSWER_WRITER: i32 = 5;
/// An accepted call: `tidings_answer_call`.
pub const TIDINGS_ANSWER_CALL: i32 = 6;
/// How a call ended: `tidings_answer_outcome`.
pub const TIDINGS_ANSWER_OUTCOME: i32 = 7;
/// Text: `tidings_answer_text`.
pub const TIDINGS_ANSWER_TEXT: i32 = 8;
/// A delivery for this program: `tidings_answer_host_delivery`; its outlet is closed where it has none.
pub const TIDINGS_ANSWER_HOST_DELIVERY: i32 = 9;

pub(crate) static ANSWERS: Table<Answer> = Table::of_process(3);

/// What an answer is: one of `TIDINGS_ANSWER_…`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_kind(answer: *const tidings_answer, kind: *mut i32) -> tidings_result {
    entry("tidings_answer_kind", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("kind", kind) }?;
        out.set(match &*ANSWERS.get("answer", answer)? {
            Answer::Complete(_) | Answer::Seq(_) => TIDINGS_ANSWER_NUMBER,
            Answer::Page(_) | Answer::Readable(_) => TIDINGS_ANSWER_BATCH,
            Answer::Writer(_) => TIDINGS_ANSWER_WRITER,
            Answer::Call(_) => TIDINGS_ANSWER_CALL,
            Answer::Ended(_) => TIDINGS_ANSWER_OUTCOME,
            Answer::Json(_) => TIDINGS_ANSWER_TEXT,
            Answer::Delivery(_) => TIDINGS_ANSWER_HOST_DELIVERY,
            Answer::Done => TIDINGS_ANSWER_DONE,
        });
        Ok(())
    })
}

fn other(kind: &str) -> Error {
    Error::argument("answer", format!("is not {kind}: ask tidings_answer_kind"))
}

/// The number of an answer that is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_number(answer: *const tidings_answer, number: *mut u64) -> tidings_result {
    entry("tidings_answer_number", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("number", number) }?;
        out.set(match &*ANSWERS.get("answer", answer)? {
            Answer::Complete(all) => u64::from(*all),
            Answer::Seq(seq) => *seq,
            _ => return Err(other("a number")),
        });
        Ok(())
    })
}

/// Takes the events of an answer that has some: sets `*batch`, to be freed with `tidings_batch_free`, and `*state` to
/// `TIDINGS_ANSWER_BATCH`; or sets `*batch` to NULL and `*state` to `TIDINGS_ANSWER_END` or `TIDINGS_ANSWER_AGAIN`. What was
/// taken counts as read: the tail's cursor moves behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_batch(
    answer: *const tidings_answer,
    batch: *mut *mut tidings_batch,
    state: *mut i32,
) -> tidings_result {
    entry("tidings_answer_batch", || {
        // SAFETY: the header's conventions.
        let (batch, state) = unsafe { (Out::new("batch", batch)?, Out::new("state", state)?) };
        let (taken, what) = match &*ANSWERS.get("answer", answer)? {
            Answer::Page(page) => (BATCHES.insert(page.clone()), TIDINGS_ANSWER_BATCH),
            Answer::Readable(tail) => match tail.take()? {
                Taken::Batch(page) => (BATCHES.insert(page), TIDINGS_ANSWER_BATCH),
                Taken::End => (std::ptr::null_mut(), TIDINGS_ANSWER_END),
                Taken::Nothing => (std::ptr::null_mut(), TIDINGS_ANSWER_AGAIN),
            },
            _ => return Err(other("a batch")),
        };
        batch.set(taken);
        state.set(what);
        Ok(())
    })
}

/// The writer of an answer that has one. Free it with `tidings_writer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_writer(
    answer: *const tidings_answer,
    writer: *mut *mut tidings_writer,
) -> tidings_result {
    entry("tidings_answer_writer", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("writer", writer) }?;
        match &*ANSWERS.get("answer", answer)? {
            Answer::Writer(found) => out.set(WRITERS.insert(found.clone())),
            _ => return Err(other("a writer")),
        }
        Ok(())
    })
}

/// The call of an answer that has one. Free it with `tidings_call_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_call(
    answer: *const tidings_answer,
    call: *mut *mut tidings_call,
) -> tidings_result {
    entry("tidings_answer_call", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("call", call) }?;
        match &*ANSWERS.get("answer", answer)? {
            Answer::Call(found) => out.set(CALLS.insert(found.clone())),
            _ => return Err(other("a call")),
        }
        Ok(())
    })
}

/// The text of an answer that has one. Free it with `tidings_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_text(
    answer: *const tidings_answer,
    text: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_answer_text", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("text", text) }?;
        match &*ANSWERS.get("answer", answer)? {
            Answer::Json(json) => text::give(out, json.clone()),
            _ => Err(other("a text")),
        }
    })
}

/// The delivery of an answer that has one; sets NULL where no more come, for its outlet or its hub is closed. Free it with
/// `tidings_host_delivery_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_host_delivery(
    answer: *const tidings_answer,
    delivery: *mut *mut tidings_host_delivery,
) -> tidings_result {
    entry("tidings_answer_host_delivery", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("delivery", delivery) }?;
        let answer = ANSWERS.get("answer", answer)?;
        out.set(match &*answer {
            Answer::Delivery(Some(_)) => HANDED.insert(Handed::new(answer)),
            Answer::Delivery(None) => std::ptr::null_mut(),
            _ => return Err(other("a delivery")),
        });
        Ok(())
    })
}

/// How a call ended. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_outcome(
    answer: *const tidings_answer,
    outcome: *mut tidings_outcome,
    size: usize,
) -> tidings_result {
    entry("tidings_answer_outcome", || match &*ANSWERS.get("answer", answer)? {
        // SAFETY: the header's conventions.
        Answer::Ended(ended) => unsafe { write_sized("outcome", outcome, size, tidings_outcome::of(ended)?) },
        _ => Err(other("an outcome")),
    })
}

/// Why the call ended as it did, where the outcome alone does not say: a text such as `server_lost`; sets NULL otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_reason(
    answer: *const tidings_answer,
    reason: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_answer_reason", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("reason", reason) }?;
        give_optional(answer, out, |ended| ended.reason.clone())
    })
}

/// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered; sets NULL
/// otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_undelivered(
    answer: *const tidings_answer,
    undelivered: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_answer_undelivered", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("undelivered", undelivered) }?;
        give_optional(answer, out, |ended| ended.undelivered.clone())
    })
}

fn give_optional(
    answer: *const tidings_answer,
    out: Out<*mut tidings_text>,
    text: impl FnOnce(&bridge::Ended) -> Option<String>,
) -> Result<()> {
    match &*ANSWERS.get("answer", answer)? {
        Answer::Ended(ended) => {
            out.set(text(ended).map_or(std::ptr::null_mut(), |text| TEXTS.insert(text.into())));
            Ok(())
        }
        _ => Err(other("an outcome")),
    }
}

/// Frees an answer. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_answer_free(answer: *mut tidings_answer) -> tidings_result {
    entry("tidings_answer_free", || ANSWERS.free("answer", answer))
}
