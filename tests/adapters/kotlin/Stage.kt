// What lives between the steps of a scenario, and the steps about hubs and streams.

package adapter

import io.tidings.Call
import io.tidings.Durability
import io.tidings.Event
import io.tidings.Gap
import io.tidings.Hub
import io.tidings.Place
import io.tidings.Tail
import io.tidings.Writer
import io.tidings.next
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Deferred
import kotlinx.serialization.json.jsonPrimitive

fun gapTold(gap: Gap?): Any? =
    gap?.let { mapOf("reason" to it.reason.name.lowercase(), "earliestSeq" to it.earliestSeq, "headSeq" to it.headSeq) }

fun eventTold(event: Event): Any? = listOf(event.seq, event.kind, event.payload)

/** Where a step's reader starts. */
private fun after(given: Given): Place? =
    given.textOrNull("cursor")?.let { Place.Cursor(it) } ?: given.find("after")?.jsonPrimitive?.let {
        if (it.isString) Place.Cursor(it.content) else Place.Seq(it.content.toULong())
    }

/** A tail, and what it has read that no step took. */
class Reader(val tail: Tail) {
    val ahead = ArrayDeque<Any?>()
}

class Stage(val scope: CoroutineScope) {
    var hub: Hub? = null
    val writers = HashMap<String, Writer>()
    val readers = HashMap<String, Reader>()
    val calls = HashMap<String, Call>()
    val asking = HashMap<String, Deferred<Result<String>>>()
    val outlets = HashMap<String, OutletStage>()
    var boxes = Boxes()

    private val steps: Map<String, Step> = RULES + ownSteps() + callSteps() + taskSteps() + deliverySteps() + boxSteps()

    fun find(op: String): Step? = steps[op]

    val open: Hub
        get() = hub ?: error("no hub is open")

    private fun stream(given: Given) = open.stream(given.text("scope"), given.text("name"))

    private fun writer(given: Given) = writers.getValue(given.text("writer"))

    private fun ownSteps(): Map<String, Step> =
        mapOf(
            "stage.reset" to { _ -> reset() },
            "hub.open" to { given ->
                val opened = Hub(given.text("url"), options(given.within("options")))
                opened.open()
                hub = opened
                mapOf<String, Any?>()
            },
            "hub.close" to { _ -> mapOf("complete" to open.shutDown(CLOSE)) },
            "hub.stats" to { _ ->
                val stats = open.stats()
                mapOf("events" to stats.events, "lost" to stats.lost, "refused" to stats.refused, "failing" to stats.failing)
            },
            "hub.new_writer" to { given ->
                writers[given.text("as")] = open.newWriter(given.text("scope"), given.text("name"))
                mapOf<String, Any?>()
            },
            "hub.resume" to { given -> keep(given, open.resume(given.text("scope"), given.text("cursor"))) },
            "stream.append" to { given ->
                val payloads = given.texts("payloads").map { it.toByteArray() }
                val kind = given.textOrNull("type") ?: "message"
                val first = stream(given).append(kind, payloads, key = given.textOrNull("key"), close = given.flag("close"))
                mapOf("first" to first)
            },
            "stream.close" to { given ->
                stream(given).closeStream()
                mapOf<String, Any?>()
            },
            "stream.claim" to { given ->
                writers[given.text("as")] = stream(given).claim()
                mapOf<String, Any?>()
            },
            "stream.read" to { given ->
                val page = stream(given).read(after(given))
                mapOf(
                    "events" to page.events.map(::eventTold),
                    "gap" to gapTold(page.gap),
                    "cursor" to page.cursor,
                    "headSeq" to page.headSeq,
                    "ended" to page.ended,
                )
            },
            "stream.tail" to { given -> keep(given, stream(given).tail(after(given))) },
            "tail.next" to ::tailNext,
            "writer.append" to { given ->
                val kind = given.textOrNull("type") ?: "message"
                mapOf("cursor" to writer(given).append(kind, given.bytes("payload")))
            },
            "writer.cursor" to { given -> mapOf("cursor" to writer(given).cursor()) },
            "writer.flush" to { given ->
                writer(given).flush(given.textOrNull("durability")?.let { Durability.valueOf(it.uppercase()) })
                mapOf<String, Any?>()
            },
            "writer.close" to { given ->
                writer(given).closeStream()
                mapOf<String, Any?>()
            },
        )

    private suspend fun reset(): Any? {
        asking.values.forEach { it.cancel() }
        asking.clear()
        readers.clear()
        writers.clear()
        calls.clear()
        outlets.clear()
        boxes = Boxes()
        val closing = hub
        hub = null
        closing?.use { it.shutDown(CLOSE) }
        return mapOf<String, Any?>()
    }

    private fun keep(given: Given, tail: Tail): Any? {
        readers[given.text("as")] = Reader(tail)
        return mapOf<String, Any?>()
    }

    private suspend fun tailNext(given: Given): Any? {
        val reader = readers.getValue(given.text("tail"))
        val count = given.number("count").toInt()
        var ended = false
        while (reader.ahead.size < count && !ended) {
            val page = reader.tail.next()
            if (page == null) {
                ended = true
            } else {
                page.gap?.let { reader.ahead.add(mapOf("gap" to gapTold(it))) }
                page.events.forEach { reader.ahead.add(eventTold(it)) }
            }
        }
        val items = List(minOf(count, reader.ahead.size)) { reader.ahead.removeFirst() }
        return mapOf("items" to items, "ended" to ended)
    }
}
