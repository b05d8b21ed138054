// The steps about outboxes: who is told what, counted and handed out.

package adapter

import io.tidings.FailedSink
import io.tidings.Outbox
import io.tidings.OutboxTask
import io.tidings.Profile
import java.time.Duration
import kotlinx.serialization.json.Json

private val NOTHING = mapOf<String, Any?>()

/** Enough for all that a scenario publishes. */
private val MOST = 1_000u

private class Sink(val box: Outbox, val number: ULong)

private class Listener(val box: Outbox, val number: ULong)

/** Outboxes with their sinks and listeners, by the names the scenario gave them. */
class Boxes {
    val outboxes = HashMap<String, Outbox>()
    private val sinks = HashMap<String, Sink>()
    private val listeners = HashMap<String, Listener>()

    private fun of(given: Given) = outboxes.getValue(given.text("outbox"))

    private fun sink(given: Given) = sinks.getValue(given.text("sink")).number

    private fun listener(given: Given) = listeners.getValue(given.text("listener")).number

    private fun profile(given: Given) = Profile(given.text("version"), given.text("server"), given.text("client"))

    fun nameOf(failed: FailedSink): String =
        sinks.entries.single { (_, sink) -> sink.box.number() == failed.outbox && sink.number == failed.sink }.key

    /** By the names of their connections, between which no order is promised. */
    private fun told(box: Outbox, tasks: List<OutboxTask>): Any? {
        val notices =
            tasks.map { task ->
                val sink = sinks.entries.single { (_, sink) -> sink.box === box && sink.number == task.sink }.key
                val listener = listeners.entries.single { (_, other) -> other.box === box && other.number == task.listener }.key
                sink to listOf(sink, listener, task.method, task.params?.let(Json::parseToJsonElement))
            }
        return mapOf("notices" to notices.sortedBy { it.first }.map { it.second })
    }

    val steps: Map<String, Step> =
        mapOf(
            "outbox.add_sink" to { given ->
                val deadline = given.numberOrNull("deadlineMs")?.let(Duration::ofMillis)
                sinks[given.text("as")] = Sink(of(given), of(given).addSink(given.textOrNull("principal"), deadline))
                NOTHING
            },
            "outbox.attend" to { given ->
                listeners[given.text("as")] = Listener(of(given), of(given).attend(sink(given), profile(given)))
                NOTHING
            },
            "outbox.listen" to { given ->
                val number = of(given).listen(sink(given), profile(given), given.text("id"), given.text("filter"))
                listeners[given.text("as")] = Listener(of(given), number)
                NOTHING
            },
            "outbox.open" to { given ->
                of(given).open(listener(given))
                NOTHING
            },
            "outbox.subscribe" to { given ->
                of(given).subscribe(listener(given), profile(given), given.text("uri"))
                NOTHING
            },
            "outbox.unsubscribe" to { given ->
                of(given).unsubscribe(listener(given), profile(given), given.text("uri"))
                NOTHING
            },
            "outbox.set_reachable" to { given ->
                of(given).setReachable(sink(given), given.flag("reachable"))
                NOTHING
            },
            "outbox.end" to { given ->
                of(given).end(listener(given))
                NOTHING
            },
            "outbox.end_all" to { given ->
                of(given).endAll()
                NOTHING
            },
            "outbox.cancel" to { given -> mapOf("ended" to of(given).cancel(listener(given))) },
            "outbox.drop_sink" to { given -> mapOf("listeners" to of(given).dropSink(sink(given))) },
            "outbox.broke" to { given -> mapOf("listeners" to of(given).broke(sink(given))) },
            "outbox.written" to { given ->
                mapOf("alive" to of(given).written(sink(given), given.number("count").toUInt()))
            },
            "outbox.take" to { given -> told(of(given), of(given).take(MOST)) },
            "outbox.next" to { given ->
                val tasks = ArrayList<OutboxTask>()
                while (tasks.size < given.number("count")) {
                    of(given).ready()
                    tasks += of(given).take(MOST)
                }
                told(of(given), tasks)
            },
            "outbox.count" to { given -> mapOf("listeners" to of(given).listeners()) },
        )
}

private val OUTBOX_STEPS = Boxes().steps.keys

fun Stage.boxSteps(): Map<String, Step> =
    OUTBOX_STEPS.associateWith<String, Step> { op -> { given -> boxes.steps.getValue(op)(given) } } +
        mapOf(
            "hub.outbox" to { given ->
                boxes.outboxes[given.text("as")] = open.outbox()
                NOTHING
            },
            "hub.notify" to { given ->
                val fanout = open.notify(given.texts("kinds"), given.textOrNull("uri"), given.textOrNull("audience"))
                mapOf("told" to fanout.told, "skipped" to fanout.skipped, "failed" to fanout.failed)
            },
            "hub.failed_sinks" to { _ -> mapOf("sinks" to open.failedSinks().map(boxes::nameOf)) },
        )
