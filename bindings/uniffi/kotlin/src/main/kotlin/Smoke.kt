// What the Kotlin binding covers, once through: open, append, tail, watch a call, verify its webhook.

import com.sun.net.httpserver.HttpServer
import io.tidings.CallRequest
import io.tidings.Hub
import io.tidings.HubOptions
import io.tidings.TidingsException
import io.tidings.Webhook
import java.net.InetSocketAddress
import java.nio.file.Files
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.system.exitProcess
import kotlinx.coroutines.async
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout

private const val SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

/** No wait takes this long, unless what it waits for never comes. */
private const val HANG_MS = 60_000L

private var passed = 0

private fun expect(what: String, holds: Boolean) {
    if (!holds) throw AssertionError(what)
    passed += 1
}

private class Post(val headers: Map<String, String>, val body: ByteArray)

/** Takes webhooks on a port that the system chose. */
private class Receiver : AutoCloseable {
    private val server = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
    private val posts = LinkedBlockingQueue<Post>()

    init {
        server.createContext("/hook") { exchange ->
            val headers = exchange.requestHeaders.entries.associate { (name, values) -> name.lowercase() to values.first() }
            posts.add(Post(headers, exchange.requestBody.readBytes()))
            exchange.sendResponseHeaders(204, -1)
            exchange.close()
        }
        server.start()
    }

    val endpoint: String get() = "http://127.0.0.1:${server.address.port}/hook"

    fun next(): Post = posts.poll(HANG_MS, TimeUnit.MILLISECONDS) ?: throw AssertionError("no webhook came")

    override fun close() = server.stop(0)
}

private suspend fun streams(hub: Hub) {
    val seqs = listOf("1.0", "{\"b\": 2}").map { hub.append("session:1", "answers", "step", it.toByteArray()) }
    expect("events are numbered from 0", seqs == listOf(0uL, 1uL))
    val tail = hub.tail("session:1", "answers", null)
    val first = tail.next()!!.events
    expect("payloads are kept byte for byte", first.map { String(it.payload) } == listOf("1.0", "{\"b\": 2}"))
    runBlocking {
        val live = async { tail.next() }
        hub.append("session:1", "answers", "step", "3".toByteArray())
        expect("a tail goes on live", live.await()!!.events.map { it.seq } == listOf(2uL))
    }
    hub.closeStream("session:1", "answers")
    expect("a tail ends with its stream", tail.next() == null)
    val resumed = hub.resume("session:1", first[0].cursor)
    expect("a cursor is a place to go on from", resumed.next()!!.events.first().seq == 1uL)
    val foreign = runCatching { hub.resume("session:2", first[0].cursor) }.exceptionOrNull()
    expect("a cursor opens nothing in another scope", (foreign as TidingsException.Failed).code == "unknown_cursor")
    tail.close()
    resumed.close()
}

private suspend fun calls(hub: Hub, receiver: Receiver) {
    val route = "{\"id\":\"r\",\"type\":\"webhook\",\"endpoint\":\"${receiver.endpoint}\",\"secret\":\"$SECRET\",\"triggers\":[\"completed\"]}"
    val request = CallRequest(
        principal = "session:1",
        tool = "report",
        requestId = "7",
        config = "{\"routes\":[$route]}",
        routeTypes = listOf("webhook"),
    )
    val call = hub.beginCall(request)
    expect("it is acknowledged", call.acknowledgement().contains("\"acceptedRoutes\":[\"r\"]"))
    expect("its events are numbered", call.emit("com.example/step", "{}".toByteArray()) == 0uL)
    val ended = call.complete("{\"content\":[]}".toByteArray())
    expect("it has one outcome", ended.outcome == "completed" && ended.ours && ended.committed)
    expect("and keeps it", call.cancel().outcome == "completed")

    val post = receiver.next()
    Webhook(listOf(SECRET)).use { webhook ->
        webhook.verify(post.body, post.headers)
        expect("the webhook is about the call", String(post.body).contains("\"name\":\"tool_call.completed\""))
        val forged = runCatching { webhook.verify(post.body + ' '.code.toByte(), post.headers) }.exceptionOrNull()
        expect("a changed body is refused", (forged as TidingsException.Failed).code == "mismatch")
    }
    val bad = runCatching { hub.beginCall(request.copy(config = "{}")) }.exceptionOrNull()
    expect("a bad config says what is wrong", (bad as TidingsException.Failed).faults!!.contains("\"total\":"))
    call.close()
}

fun main() {
    val directory = Files.createTempDirectory("tidings")
    val options = HubOptions(allowHttp = true, allowNetworks = listOf("127.0.0.0/8"), verify = "address")
    Receiver().use { receiver ->
        Hub.open("sqlite:${directory.resolve("t.db")}", options).use { hub ->
            runBlocking {
                withTimeout(HANG_MS) {
                    streams(hub)
                    calls(hub, receiver)
                }
            }
            expect("it closes in time", hub.shutDown(10_000uL))
        }
    }
    directory.toFile().deleteRecursively()
    println("kotlin: $passed passed, 0 failed")
    exitProcess(0)
}
