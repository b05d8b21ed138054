// The steps about calls, tasks, deliveries and places in the host.

package adapter

import io.tidings.CallRequest
import io.tidings.Ended
import io.tidings.Hub
import io.tidings.Offer
import io.tidings.Outlet
import io.tidings.TaskTerms
import java.time.Duration
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.async

private val NOTHING = mapOf<String, Any?>()

private fun endedTold(ended: Ended): Any? =
    mapOf(
        "outcome" to ended.outcome,
        "reason" to ended.reason,
        "ours" to ended.ours,
        "committed" to ended.committed,
        "undelivered" to ended.undelivered,
    )

private fun Stage.call(given: Given) = calls.getValue(given.text("call"))

private fun asker(given: Given) = given.textOrNull("principal") ?: "anyone"

private suspend fun Stage.begin(given: Given): Any? {
    val call =
        open.beginCall(
            CallRequest(
                config = given.bytesOrNull("config"),
                routeTypes = if (given.find("routeTypes") == null) listOf("webhook") else given.texts("routeTypes"),
                principal = asker(given),
                peer = "calling",
                open = given.texts("open"),
                requestId = given.textOrNull("requestId") ?: "1",
                tool = given.textOrNull("tool") ?: "tool",
                timeout = given.numberOrNull("timeoutMs")?.let(Duration::ofMillis),
                task = given.numberOrNull("taskTtlMs")?.let { TaskTerms(ttlMs = it.toULong(), bound = true) },
            )
        )
    calls[given.text("as")] = call
    return mapOf(
        "callId" to call.id(),
        "acknowledgement" to call.acknowledgement(),
        "accepted" to call.acceptedRoutes(),
        "ignored" to call.ignoredTriggers(),
    )
}

fun Stage.callSteps(): Map<String, Step> =
    mapOf(
        "call.begin" to { given -> begin(given) },
        "call.emit" to { given -> mapOf("seq" to call(given).emit(given.text("type"), given.bytes("payload"))) },
        "call.fire" to { given -> mapOf("seq" to call(given).fire(given.text("name"), given.bytes("payload"))) },
        "call.disconnected" to { given ->
            call(given).disconnected()
            NOTHING
        },
        "call.complete" to { given -> endedTold(call(given).complete(given.bytes("result"))) },
        "call.fail" to { given -> endedTold(call(given).fail(given.bytesOrNull("error"), given.textOrNull("reason"))) },
        "call.cancel" to { given -> endedTold(call(given).cancel(given.textOrNull("reason"))) },
        "call.ended" to { given -> endedTold(call(given).ended()) },
    )

fun Stage.taskSteps(): Map<String, Step> =
    mapOf(
        // The tool waits for its client's answers while the scenario goes on.
        "call.ask" to { given ->
            val call = call(given)
            val requests = given.bytes("requests")
            asking[given.text("as")] = scope.async(start = CoroutineStart.UNDISPATCHED) { runCatching { call.ask(requests) } }
            NOTHING
        },
        "ask.answers" to { given -> mapOf("answers" to asking.getValue(given.text("ask")).await().getOrThrow()) },
        "hub.task" to { given -> mapOf("task" to open.task(given.text("id"), asker(given))?.json) },
        "hub.answer_task" to { given ->
            mapOf("found" to open.answerTask(given.text("id"), asker(given), given.bytes("responses")))
        },
        "hub.cancel_task" to { given -> mapOf("found" to open.cancelTask(given.text("id"), asker(given))) },
    )

fun Stage.deliverySteps(): Map<String, Step> =
    mapOf(
        "hub.deliveries" to { given ->
            val found =
                open.deliveries(
                    principal = given.textOrNull("principal"),
                    callId = given.textOrNull("call")?.let { calls.getValue(it).id() },
                    state = given.textOrNull("state"),
                )
            val deliveries =
                found.map {
                    mapOf(
                        "route" to it.route,
                        "trigger" to it.trigger,
                        "state" to it.state,
                        "attempts" to it.attempts,
                        "lastError" to it.lastError,
                        "eventId" to it.eventId,
                    )
                }
            mapOf("deliveries" to deliveries)
        },
        "hub.outlet" to { given ->
            outlets[given.text("as")] = OutletStage(open, Offer(routeType = given.text("type"), name = given.textOrNull("name")))
            NOTHING
        },
        "outlet.next" to { given -> outlets.getValue(given.text("outlet")).next(given.text("answer")) },
    )

/** A handler that waits for the scenario's answers. */
class OutletStage(hub: Hub, offer: Offer) {
    private val outlet: Outlet = hub.outlet(offer)

    suspend fun next(answer: String): Any? {
        val delivery = outlet.next() ?: error("the outlet is closed")
        val facts = delivery.facts()
        when (answer) {
            "confirm" -> delivery.confirm()
            "fail" -> delivery.refuse("failed")
            else -> delivery.refuse("refused")
        }
        return mapOf(
            "route" to facts.route,
            "type" to facts.routeType,
            "endpoint" to facts.endpoint,
            "trigger" to facts.trigger,
            "attempt" to facts.attempt,
            "eventId" to facts.eventId,
            "body" to facts.body,
        )
    }
}
