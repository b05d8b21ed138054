//! The side in Rust of `bench/go/go_crossing`, which starts it: the same appends and reads, with nothing to cross. It does what a line of
//! its standard input says, `append N`, `read PAGES`, `copy N` or `flush`, and then writes one; its stream is in `memory:`.
#![allow(clippy::print_stdout, reason = "its answers")]

use std::hint::black_box;
use std::io::stdin;

use tidings::{After, Durability, Hub, ReadLimits, Stream, Writer};
use tidings_bench::Result;
use tokio::runtime::Builder;

/// As in go_crossing: the events of a page, and the bytes of an event.
const PAGE: u32 = 256;
const PAYLOAD: usize = 250;

fn main() -> Result<()> {
    let waits = Builder::new_current_thread().build()?;
    let hub = Hub::open("memory:")?;
    let (writer, stream) = (hub.new_writer("bench", "rust")?, hub.stream("bench", "rust")?);
    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(PAYLOAD - r#"{"text":""}"#.len())).into_bytes();
    for line in stdin().lines() {
        match line?.split_once(' ') {
            Some(("append", count)) => append(&writer, &payload, count.parse()?)?,
            Some(("copy", count)) => copy(&payload, count.parse()?),
            Some((_, pages)) => read(&stream, pages.parse()?)?,
            None => waits.block_on(writer.flush(Durability::Process))?,
        }
        println!();
    }
    Ok(())
}

fn append(writer: &Writer, payload: &[u8], count: usize) -> Result<()> {
    for _ in 0..count {
        black_box(writer.append("message", payload, None)?);
    }
    Ok(())
}

/// The floor of both: the bytes of an event, copied.
fn copy(payload: &[u8], count: usize) {
    let mut room = [0; PAYLOAD];
    for _ in 0..count {
        room.copy_from_slice(black_box(payload));
        black_box(&room);
    }
}

/// Copies each event, as the other sides do.
fn read(stream: &Stream, pages: usize) -> Result<()> {
    let mut room = [0; PAYLOAD];
    let limits = ReadLimits { events: PAGE, ..ReadLimits::default() };
    for _ in 0..pages {
        let read = stream.read(After::Earliest, limits)?;
        let page = read.events.get(..PAGE as usize).ok_or("a page is not whole")?;
        for event in page {
            room.copy_from_slice(&event.payload);
            black_box(&room);
        }
    }
    Ok(())
}
