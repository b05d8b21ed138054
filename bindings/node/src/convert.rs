//! Errors and answers, between JavaScript and the bridge.

use std::fmt::Write;

use napi::bindgen_prelude::{Buffer, Either, Either4, Either8, Null};
use tidings_bridge::{self as bridge, Answer, Started};

use crate::call::{Call, Ended};
use crate::event::{Batch, Page};
use crate::outlet::HostDelivery;
use crate::port::{self, Pending};
use crate::stream::{Writer, take};

/// What an entry throws: `code` is of the error table.
pub(crate) type Error = napi::Error<String>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The value of an operation. `undefined` is done, `null` the end of a tail or an outlet.
pub(crate) type Value = Either8<(), Null, bool, f64, Batch, Writer, Call, Either4<Ended, Page, HostDelivery, String>>;

/// The value of an operation that is done, or the operation.
pub(crate) type Told = Either<Value, Pending>;

/// Runs an entry point.
pub(crate) fn entry<T>(name: &'static str, body: impl FnOnce() -> bridge::Result<T>) -> Result<T> {
    bridge::guard(name, body).map_err(|error| to_node(&error))
}

/// Begins an operation and parks it at this thread's port if it waits.
pub(crate) fn begin(name: &'static str, body: impl FnOnce() -> bridge::Result<Started>) -> Result<Told> {
    match entry(name, body)? {
        Started::Ready(answer) => Ok(Either::A(finish(answer)?)),
        Started::Pending(pending) => Ok(Either::B(port::park(pending)?)),
    }
}

/// An operation's answer as JavaScript's value or error.
pub(crate) fn finish(answer: bridge::Result<Answer>) -> Result<Value> {
    Ok(match answer.map_err(|error| to_node(&error))? {
        Answer::Done => Value::A(()),
        Answer::Complete(all) => Value::C(all),
        Answer::Seq(seq) => Value::D(number(seq)),
        Answer::Page(page) => Value::H(Either4::B(Page::from(page))),
        Answer::Readable(tail) => take(&tail)?,
        Answer::Writer(writer) => Value::F(Writer::new(writer)),
        Answer::Call(call) => Value::G(Call::new(call)),
        Answer::Delivery(Some(delivery)) => Value::H(Either4::C(HostDelivery::new(*delivery))),
        Answer::Delivery(None) => Value::B(Null),
        Answer::Ended(ended) => Value::H(Either4::A(Ended::from(ended))),
        Answer::Json(json) => Value::H(Either4::D(json)),
    })
}

/// The error to throw. That of a config has its faults as JSON in the message, after a line break: Node-API makes errors
/// of a code and a message only, and `node/src/errors.ts` takes them apart again.
pub(crate) fn to_node(error: &bridge::Error) -> Error {
    let mut message = error.to_string();
    if let Some(faults) = error.faults() {
        // `data_json` is `{"faults":[{"path","rule","message"}…],"total":…}`, one line.
        let _ = write!(message, "\n{}", faults.data_json);
    }
    napi::Error::new(error.code().as_str().to_owned(), message)
}

/// JSON text as JavaScript gives it.
pub(crate) type Text = Either<String, Buffer>;

/// Its bytes, copied: JavaScript may go on writing into a buffer.
pub(crate) fn bytes(text: Text) -> Vec<u8> {
    match text {
        Either::A(string) => string.into_bytes(),
        Either::B(buffer) => buffer.to_vec(),
    }
}

/// A sequence number or a count. The core gives none beyond 2^53 - 1.
#[allow(clippy::cast_precision_loss, reason = "numbers up to 2^53 are exact")]
pub(crate) fn number(value: u64) -> f64 {
    value as f64
}
