// What it costs to come from C and from Go: the same appends and reads from Rust, in a process of their own (bench/rust, `_crossing`), and
// in this one from C in a loop and from Go one by one. Rounds alternate.
package main

/*
#include <stdlib.h>
#include <string.h>
#include <tidings.h>

static int c_append(const tidings_writer *writer, const uint8_t *payload, size_t len, size_t count) {
  uint64_t seq;
  for (size_t at = 0; at < count; at++)
    if (tidings_writer_append(writer, "message", 7, payload, len, NULL, 0, 0, &seq) != TIDINGS_OK) return 1;
  return 0;
}

// Reads and copies as Go does: what a program wants of events is its own.
static int c_read(const tidings_stream *stream, uint32_t limit, size_t count, char *room) {
  for (size_t at = 0; at < count; at++) {
    tidings_batch *batch = NULL;
    size_t events = 0;
    if (tidings_stream_read(stream, NULL, 0, TIDINGS_EARLIEST, limit, &batch) != TIDINGS_OK) return 1;
    if (tidings_batch_count(batch, &events) != TIDINGS_OK || events != limit) return 1;
    for (size_t one = 0; one < events; one++) {
      tidings_event event;
      if (tidings_batch_event(batch, one, &event, sizeof event) != TIDINGS_OK) return 1;
      memcpy(room, event.payload.data, event.payload.len);
    }
    tidings_batch_free(batch);
  }
  return 0;
}

static tidings_hub *c_hub(void) {
  tidings_hub *hub = NULL;
  tidings_hub_new("memory:", 7, NULL, &hub);
  return hub;
}

static tidings_writer *c_writer(const tidings_hub *hub, const char *name) {
  tidings_writer *writer = NULL;
  tidings_hub_new_writer(hub, "bench", 5, name, strlen(name), &writer);
  return writer;
}

static tidings_stream *c_stream(const tidings_hub *hub, const char *name) {
  tidings_stream *stream = NULL;
  tidings_hub_stream(hub, "bench", 5, name, strlen(name), &stream);
  return stream;
}

static int c_flush(const tidings_writer *writer) {
  tidings_answer *answer = NULL;
  int failed = tidings_writer_flush(writer, TIDINGS_PROCESS, NULL, NULL, &answer) != TIDINGS_OK;
  tidings_answer_free(answer);
  return failed;
}

#cgo noescape tidings_abi_version
#cgo nocallback tidings_abi_version
*/
import "C"

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"unsafe"

	"github.com/tidings-mcp/tidings/bench/go/internal/report"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// page is how many events are read at a time.
const page = 256

func ok(failed C.int) {
	if failed != 0 {
		log.Fatal("a call from C failed")
	}
}

func main() {
	appends, reads, crossings := 200_000, 2_000, 5_000_000
	if report.Quick() {
		appends, reads, crossings = 20_000, 200, 500_000
	}
	payload := append(append([]byte(`{"text":"`), bytes.Repeat([]byte("x"), 239)...), `"}`...)
	ctx := context.Background()
	hub := report.Must(tidings.Open(ctx, "memory:"))
	defer hub.Close()
	writer := report.Must(hub.NewWriter("bench", "go"))
	fromC := C.c_hub()
	cWriter, cPayload := C.c_writer(fromC, C.CString("c")), (*C.uint8_t)(C.CBytes(payload))

	rust := report.Must(startPeer())
	defer rust.stop()

	// What waits for the store is bounded: committed outside of what is measured.
	flushed := func() {
		report.Must(0, writer.Flush(ctx, tidings.Process))
		ok(C.c_flush(cWriter))
		rust.does("flush")
	}
	append := report.Each(appends, func() { rust.does("append", appends) }, flushed, func() {
		ok(C.c_append(cWriter, cPayload, C.size_t(len(payload)), C.size_t(appends)))
	}, flushed, func() {
		for range appends {
			report.Must(writer.Append("message", payload))
		}
	}, flushed)
	crossing := report.Each(crossings, func() {
		for range crossings {
			C.tidings_abi_version()
		}
	}, func() { rust.does("copy", crossings) })

	for range page {
		report.Must(writer.Append("message", payload))
	}
	flushed()
	stream, cStream := report.Must(hub.Stream("bench", "go")), C.c_stream(fromC, C.CString("c"))
	room := (*C.char)(C.malloc(C.size_t(len(payload))))
	read := report.Each(reads*page, func() { rust.does("read", reads) }, func() { ok(C.c_read(cStream, page, C.size_t(reads), room)) }, func() {
		for range reads {
			if found := report.Must(stream.Read(ctx, tidings.Earliest, page)); len(found.Events) != page {
				log.Fatalf("%d events", len(found.Events))
			}
		}
	})
	C.free(unsafe.Pointer(room))

	fmt.Printf("%s; `memory:`, payloads of %d bytes, pages of %d events; nanoseconds, median of %d rounds with their range.\n\n",
		report.Machine(), len(payload), page, report.Rounds())
	report.Row("", "from Rust", "from C", "from Go", "C − Rust", "Go − C")
	report.Row("---", "---", "---", "---", "---", "---")
	report.Row("the floor: its bytes, copied", report.Spread(crossing[1]), "", "", "", "")
	report.Row("a call that does nothing", "", "", report.Spread(crossing[0]), "", "")
	row("one append, to its return", append[0], append[2], append[4])
	row("one event of a read, copied", read[0], read[1], read[2])
}

func row(name string, rust, c, own []float64) {
	difference := func(more, less []float64) string {
		return fmt.Sprintf("%.0f", report.Median(more)-report.Median(less))
	}
	report.Row(name, report.Spread(rust), report.Spread(c), report.Spread(own), difference(c, rust), difference(own, c))
}
