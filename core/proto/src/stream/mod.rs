//! Streams: numbering, cursors, gaps and retention.
//!
//! A stream is an append-only log of events numbered 0, 1, 2 … without holes. Readers see committed events only.
//! A [`Cursor`] says where a reader stands; [`check`] says whether a reader may go on from there, and if
//! not, which [`Gap`] tells the truth.

mod cursor;
mod gap;
mod id;
mod identity;
mod line;
mod retention;

pub use cursor::{Cursor, CursorPrefix, MalformedCursor};
pub use gap::{Gap, GapReason, Resume, StreamView, check, check_bare};
pub use id::{MalformedId, StreamId, decode_id, encode_id};
pub use identity::{IDENTITY_MEMBERS, IdentityFault, MAX_IDENTITY_BYTES, identity_json};
pub use line::{event_line, gap_line};
pub use retention::{Amount, ChunkView, Retention, first_kept, first_kept_of_all};

/// The largest sequence number: what a JSON number holds exactly in every language (2^53 − 1).
pub const MAX_SEQ: u64 = (1 << 53) - 1;
