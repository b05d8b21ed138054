//! c_crossing: what it costs to come from C: the same appends and reads by the Rust API and by the C ABI, in one process.
//!
//! The exports are called as C calls them, through pointers that the compiler cannot see behind: what is measured is what
//! `libtidings.so` does, but for the jump through the table of a shared library.
#![allow(unsafe_code, reason = "it calls the C ABI, as C does: pointers, lengths and handles")]
#![allow(clippy::print_stdout, reason = "a bench's report goes to stdout")]
#![allow(clippy::disallowed_methods, reason = "a bench reads clocks")]

use std::ffi::c_char;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use tidings::{After, Durability, Hub, ReadLimits};
use tidings_bench::stats::Spread;
use tidings_bench::{Result, machine};
use tidings_c::answer::{tidings_answer, tidings_answer_free};
use tidings_c::batch::{tidings_batch_count, tidings_batch_event, tidings_batch_free, tidings_event};
use tidings_c::entry::TIDINGS_OK;
use tidings_c::hub::{tidings_hub, tidings_hub_new, tidings_hub_new_writer, tidings_hub_stream};
use tidings_c::process::tidings_abi_version;
use tidings_c::stream::{
    TIDINGS_EARLIEST, TIDINGS_PROCESS, tidings_stream, tidings_stream_read, tidings_writer, tidings_writer_append,
    tidings_writer_congested, tidings_writer_flush,
};

const USAGE: &str = "\
usage: c_crossing [--quick] [--rounds N]
  --quick     2 rounds of few calls, to see that it runs
  --rounds N  rounds of each case (default 9)";

/// Events of one read.
const PAGE: usize = 256;
/// Bytes of a payload.
const PAYLOAD: usize = 250;

struct Options {
    rounds: usize,
    appends: usize,
    reads: usize,
    calls: usize,
}

fn options() -> Result<Options> {
    let mut options = Options { rounds: 9, appends: 200_000, reads: 2_000, calls: 5_000_000 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options = Options { rounds: 2, appends: 20_000, reads: 200, calls: 500_000 },
            "--rounds" => {
                let value = arguments.next().ok_or_else(|| format!("--rounds needs a value\n{USAGE}"))?;
                options.rounds = value.parse()?;
            }
            _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
        }
    }
    Ok(options)
}

/// What the calls of one side do, and what makes room for the next round, which is not measured.
trait Side {
    fn append(&mut self, payload: &[u8]);
    fn flush(&mut self);
    fn asks(&mut self) -> bool;
    /// Reads a page and copies each payload: what a program wants of events is its own.
    fn read(&mut self, room: &mut [u8]);
}

struct Rust {
    _hub: Hub,
    writer: tidings::Writer,
    stream: tidings::Stream,
}

impl Rust {
    fn new() -> Result<Self> {
        let hub = Hub::open("memory:")?;
        let writer = hub.new_writer("bench", "rust")?;
        let stream = hub.stream("bench", "rust")?;
        Ok(Self { _hub: hub, writer, stream })
    }
}

impl Side for Rust {
    fn append(&mut self, payload: &[u8]) {
        assert!(self.writer.append("message", payload, None).is_ok());
    }

    fn flush(&mut self) {
        assert!(block_on(self.writer.flush(Durability::Process)).is_ok());
    }

    fn asks(&mut self) -> bool {
        self.writer.congested()
    }

    fn read(&mut self, room: &mut [u8]) {
        let limits = ReadLimits { events: PAGE as u32, ..ReadLimits::default() };
        let mut read = self.stream.read(After::Earliest, limits).expect("a store in memory reads");
        // As the C ABI does, whose limit is exact: a chunk is read whole.
        read.events.truncate(PAGE);
        assert_eq!(read.events.len(), PAGE);
        for event in &read.events {
            room[..event.payload.len()].copy_from_slice(&event.payload);
        }
    }
}

/// The exports, as C finds them.
struct C {
    writer: *mut tidings_writer,
    stream: *mut tidings_stream,
    append: unsafe extern "C" fn(
        *const tidings_writer,
        *const c_char,
        usize,
        *const u8,
        usize,
        *const tidings_c::memory::tidings_pair,
        usize,
        u32,
        *mut u64,
    ) -> i32,
    congested: unsafe extern "C" fn(*const tidings_writer, *mut i32) -> i32,
    event: unsafe extern "C" fn(*const tidings_c::batch::tidings_batch, usize, *mut tidings_event, usize) -> i32,
}

fn chars(text: &str) -> *const c_char {
    text.as_ptr().cast()
}

impl C {
    fn new() -> Self {
        let (mut hub, mut writer, mut stream): (*mut tidings_hub, _, _) = (null_mut(), null_mut(), null_mut());
        // SAFETY: live places, and texts of the lengths that are said.
        unsafe {
            assert_eq!(tidings_hub_new(chars("memory:"), 7, null(), &raw mut hub), TIDINGS_OK);
            assert_eq!(tidings_hub_new_writer(hub, chars("bench"), 5, chars("c"), 1, &raw mut writer), TIDINGS_OK);
            assert_eq!(tidings_hub_stream(hub, chars("bench"), 5, chars("c"), 1, &raw mut stream), TIDINGS_OK);
        }
        Self {
            writer,
            stream,
            append: black_box(tidings_writer_append),
            congested: black_box(tidings_writer_congested),
            event: black_box(tidings_batch_event),
        }
    }
}

impl Side for C {
    fn append(&mut self, payload: &[u8]) {
        let mut seq = 0;
        // SAFETY: a live place and handle, bytes of the length that is said, and no identity.
        let done = unsafe {
            (self.append)(self.writer, chars("message"), 7, payload.as_ptr(), payload.len(), null(), 0, 0, &raw mut seq)
        };
        assert_eq!(done, TIDINGS_OK);
    }

    fn flush(&mut self) {
        let mut answer: *mut tidings_answer = null_mut();
        // SAFETY: a live place and handles; without a port there is no token.
        unsafe {
            let done = tidings_writer_flush(self.writer, TIDINGS_PROCESS, null(), null_mut(), &raw mut answer);
            assert_eq!(done, TIDINGS_OK);
            assert_eq!(tidings_answer_free(answer), TIDINGS_OK);
        }
    }

    fn asks(&mut self) -> bool {
        let mut congested = 0;
        // SAFETY: a live place and handle.
        assert_eq!(unsafe { (self.congested)(self.writer, &raw mut congested) }, TIDINGS_OK);
        congested == 1
    }

    fn read(&mut self, room: &mut [u8]) {
        let (mut batch, mut count) = (null_mut(), 0);
        // SAFETY: live places and handles; the event's payload is there as long as its batch.
        unsafe {
            let limit = PAGE as u32;
            let done = tidings_stream_read(self.stream, null(), 0, TIDINGS_EARLIEST, limit, &raw mut batch);
            assert_eq!(done, TIDINGS_OK);
            assert_eq!(tidings_batch_count(batch, &raw mut count), TIDINGS_OK);
            assert_eq!(count, PAGE);
            for index in 0..count {
                let mut event = std::mem::MaybeUninit::<tidings_event>::uninit();
                let size = size_of::<tidings_event>();
                assert_eq!((self.event)(batch, index, event.as_mut_ptr(), size), TIDINGS_OK);
                let payload = event.assume_init().payload;
                room[..payload.len].copy_from_slice(std::slice::from_raw_parts(payload.data, payload.len));
            }
            assert_eq!(tidings_batch_free(batch), TIDINGS_OK);
        }
    }
}

/// Nanoseconds of one of `count`.
fn each(count: usize, mut work: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..count {
        work();
    }
    begun.elapsed().as_nanos() as f64 / count as f64
}

/// What one side gave, by the round.
#[derive(Default)]
struct Took {
    append: Vec<f64>,
    asks: Vec<f64>,
    event: Vec<f64>,
}

fn round(side: &mut impl Side, took: &mut Took, options: &Options, payload: &[u8], room: &mut [u8]) {
    took.append.push(each(options.appends, || side.append(payload)));
    // What waits for the store is bounded, and its thread shares the machine: committed outside of what is measured.
    side.flush();
    took.asks.push(each(options.calls, || {
        black_box(side.asks());
    }));
    let read = each(options.reads, || side.read(room));
    took.event.push(read / PAGE as f64);
}

/// What the machine takes for what none of both can do without.
#[derive(Default)]
struct Floor {
    call: Vec<f64>,
    copy: Vec<f64>,
    locked: Vec<f64>,
}

impl Floor {
    fn round(&mut self, options: &Options, payload: &[u8], room: &mut [u8]) {
        let nothing: extern "C" fn() -> u32 = black_box(tidings_abi_version);
        self.call.push(each(options.calls, || {
            black_box(nothing());
        }));
        self.copy
            .push(each(options.calls, || black_box(&mut *room)[..payload.len()].copy_from_slice(black_box(payload))));
        let kept = Mutex::new(Vec::with_capacity(payload.len() * options.appends));
        self.locked.push(each(options.appends, || {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(black_box(payload));
        }));
    }
}

/// Waits for a future in this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn text(values: &[f64]) -> String {
    Spread::of(values.iter().copied()).text(|ns| format!("{ns:.1}"))
}

fn row(name: &str, rust: &[f64], c: &[f64], floor: &str) {
    // Round by round: what else the machine does falls on both.
    let crossing: Vec<f64> = rust.iter().zip(c).map(|(rust, c)| c - rust).collect();
    println!("| {name} | {} | {} | {} | {floor} |", text(rust), text(c), text(&crossing));
}

fn main() -> Result<()> {
    let options = options()?;
    println!(
        "The same calls by the Rust API and by the C ABI: nanoseconds, median over {} rounds and their range.",
        options.rounds
    );
    println!("`memory:`, payloads of {PAYLOAD} bytes, pages of {PAGE} events.\n");
    for (name, value) in machine::describe(Path::new(".")) {
        println!("- {name}: {value}");
    }
    println!("- load at the start: {}\n", machine::load());

    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(PAYLOAD - r#"{"text":""}"#.len()));
    let payload = payload.as_bytes();
    let mut room = vec![0; PAYLOAD];
    let (mut rust, mut c) = (Rust::new()?, C::new());
    let (mut from_rust, mut from_c, mut floor) = (Took::default(), Took::default(), Floor::default());
    for at in 0..options.rounds {
        floor.round(&options, payload, &mut room);
        // Each goes first in turn.
        if at % 2 == 0 {
            round(&mut rust, &mut from_rust, &options, payload, &mut room);
            round(&mut c, &mut from_c, &options, payload, &mut room);
        } else {
            round(&mut c, &mut from_c, &options, payload, &mut room);
            round(&mut rust, &mut from_rust, &options, payload, &mut room);
        }
    }
    println!("| | Rust API | C ABI | the crossing: C − Rust | floor |\n|---|---|---|---|---|");
    row(
        "a question of a writer (`congested`)",
        &from_rust.asks,
        &from_c.asks,
        &format!("a call: {}", text(&floor.call)),
    );
    let locked = format!("a lock, and a copy that is kept: {}", text(&floor.locked));
    row("one append, to its return", &from_rust.append, &from_c.append, &locked);
    row("one event of a read, copied", &from_rust.event, &from_c.event, &format!("a copy: {}", text(&floor.copy)));
    println!("\n- load at the end: {}", machine::load());
    Ok(())
}
