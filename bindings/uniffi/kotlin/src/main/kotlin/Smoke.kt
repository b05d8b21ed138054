// What the Kotlin binding covers, once through: open, append, tail, watch a call, verify its webhook.

import com.sun.net.httpserver.HttpServer
import io.tidings.CallRequest
import io.tidings.Header
import io.tidings.Hub
import io.tidings.HubOptions
import io.tidings.Place
import io.tidings.Stream
import io.tidings.TidingsException
import io.tidings.Webhook
import io.tidings.closeAll
import io.tidings.next
import io.tidings.takeLog
import java.io.ByteArrayOutputStream
import java.io.PrintStream
import java.net.InetSocketAddress
import java.nio.file.Files
import java.time.Duration
import java.time.Instant
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.system.exitProcess
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.joinAll
import kotlinx.coroutines.launch
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

/** The exception that this ends with. */
private inline fun <reified E : Throwable> refused(work: () -> Any?): E =
    runCatching(work).exceptionOrNull() as? E ?: throw AssertionError("nothing was refused with ${E::class.simpleName}")

private class Post(val headers: List<Header>, val body: ByteArray)

/** Takes webhooks on a port that the system chose. */
private class Receiver : AutoCloseable {
    private val server = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
    private val posts = LinkedBlockingQueue<Post>()

    init {
        server.createContext("/hook") { exchange ->
            val headers = exchange.requestHeaders.flatMap { (name, values) -> values.map { Header(name, it) } }
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

private suspend fun Stream.append(payload: String) = append("step", listOf(payload.toByteArray()))

private suspend fun streams(hub: Hub) = coroutineScope {
    val answers = hub.stream("session:1", "answers")
    val seqs = listOf("1.0", "{\"b\": 2}").map { answers.append(it) }
    expect("events are numbered from 0", seqs == listOf(0uL, 1uL))
    val tail = answers.tail()
    val first = tail.next()!!.events
    expect("payloads are kept byte for byte", first.map { String(it.payload) } == listOf("1.0", "{\"b\": 2}"))
    val live = async(start = CoroutineStart.UNDISPATCHED) { tail.next() }
    answers.append("3")
    expect("a tail goes on live", live.await()!!.events.map { it.seq } == listOf(2uL))
    answers.closeStream()
    expect("a tail ends with its stream", tail.next() == null)

    val resumed = hub.resume("session:1", first[0].cursor)
    expect("a cursor is a place to go on from", resumed.next()!!.events.first().seq == 1uL)
    val foreign = refused<TidingsException.Failed> { hub.resume("session:2", first[0].cursor) }
    expect("a cursor opens nothing in another scope", foreign.code == "unknown_cursor" && !foreign.retryable)
    expect("a page says where it ends", answers.read(Place.Seq(1uL)).let { it.ended && it.headSeq == 2uL })

    hub.newWriter("session:1", "owned").use { writer ->
        val cursors = List(3) { writer.append("step", "$it".toByteArray(), mapOf("turn" to "t1")) }
        writer.flush()
        val told = hub.resume("session:1", cursors[0]).use { it.next()!!.events }
        expect("a writer's cursor is one to resume from", told.map { it.seq } == listOf(1uL, 2uL))
        expect("an event keeps its identity", told[0].identity == "{\"turn\":\"t1\"}")
    }
    tail.close()
    resumed.close()
}

/** What Kotlin's coroutines do to operations that wait. */
private suspend fun coroutines(hub: Hub) = coroutineScope {
    val stream = hub.stream("session:2", "answers")
    stream.append("0")
    val tail = stream.tail(Place.Seq(0uL))
    val cancelled = launch(start = CoroutineStart.UNDISPATCHED) { tail.next() }
    cancelled.cancel()
    cancelled.join()
    stream.append("1")
    expect("a cancelled wait took nothing along", tail.next()!!.events.single().seq == 1uL)
    val stopped = async(start = CoroutineStart.UNDISPATCHED) { tail.next() }
    tail.stop()
    expect("a tail that is stopped tells whoever waits", stopped.await() == null)

    for (dispatcher in listOf(Dispatchers.Default, Dispatchers.IO)) {
        val name = "many:$dispatcher"
        val appends = List(50) { launch(dispatcher) { hub.stream("session:2", name).append("$it") } }
        appends.joinAll()
        val events = hub.stream("session:2", name).read().events
        expect("fifty appends at a time are fifty events", events.map { it.seq } == List(50) { it.toULong() })
    }
}

private suspend fun calls(hub: Hub, receiver: Receiver) {
    val route = "{\"id\":\"r\",\"type\":\"webhook\",\"endpoint\":\"${receiver.endpoint}\",\"secret\":\"$SECRET\",\"triggers\":[\"completed\"]}"
    val request =
        CallRequest(
            principal = "session:1",
            tool = "report",
            requestId = "7",
            config = "{\"routes\":[$route]}".toByteArray(),
            routeTypes = listOf("webhook"),
        )
    val call = hub.beginCall(request)
    expect("it is acknowledged", call.acknowledgement().contains("\"acceptedRoutes\":[\"r\"]"))
    expect("its events are numbered", call.emit("com.example/step", "{}".toByteArray()) == 0uL)
    val ended = call.complete("{\"content\":[]}".toByteArray())
    expect("it has one outcome", ended.outcome == "completed" && ended.ours && ended.committed)
    expect("and keeps it", call.cancel().outcome == "completed")

    val post = receiver.next()
    val now = Instant.now().epochSecond
    Webhook(listOf(SECRET)).use { webhook ->
        webhook.verify(post.body, post.headers, now)
        expect("the webhook is about the call", String(post.body).contains("\"name\":\"tool_call.completed\""))
        val forged = refused<TidingsException.InvalidWebhook> { webhook.verify(post.body + ' '.code.toByte(), post.headers, now) }
        expect("a changed body is refused", forged.code == "mismatch")
    }
    val bad = refused<TidingsException.InvalidConfig> { hub.beginCall(request.copy(config = "{}".toByteArray())) }
    expect("a bad config says what is wrong", bad.total > 0uL && bad.faults.isNotEmpty() && bad.dataJson.contains("\"total\":"))
    val wrong = refused<TidingsException.Failed> { hub.beginCall(request.copy(requestId = "1.5")) }
    expect("an argument that cannot cross is named", wrong.code == "invalid_argument" && wrong.detail.startsWith("requestId: "))
    call.close()

    val dropped = hub.beginCall(request.copy(config = null))
    dropped.close()
    val freed = runCatching { dropped.id() }.exceptionOrNull()
    expect("what is freed cannot be used", freed is IllegalStateException)
}

/** README.md's example prints what it reads. */
private suspend fun readme() {
    val printed = ByteArrayOutputStream()
    val stdout = System.out
    System.setOut(PrintStream(printed))
    try {
        readmeExample()
    } finally {
        System.setOut(stdout)
    }
    expect("README.md's example prints its event", printed.toString().trim() == "0 {\"n\": 1}")
}

fun main() {
    val directory = Files.createTempDirectory("tidings")
    val options = HubOptions(allowHttp = true, allowNetworks = listOf("127.0.0.0/8"), verify = "address")
    Receiver().use { receiver ->
        Hub("sqlite:${directory.resolve("t.db")}", options).use { hub ->
            runBlocking {
                withTimeout(HANG_MS) {
                    streams(hub)
                    coroutines(hub)
                    calls(hub, receiver)
                    readme()
                    expect("it closes in time", hub.shutDown(Duration.ofSeconds(10)))
                }
            }
            expect("a closed hub says so", refused<TidingsException.Failed> { hub.open() }.code == "closed")
        }
    }
    expect("nothing is left to close", closeAll(Duration.ofSeconds(10)))
    val logged = takeLog().records.map { it.message }
    expect("the call that was freed is logged", logged.single().startsWith("a call was given up without an outcome"))
    directory.toFile().deleteRecursively()
    println("kotlin: $passed passed, 0 failed")
    exitProcess(0)
}
