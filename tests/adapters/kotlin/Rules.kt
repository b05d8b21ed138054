// The rules that Kotlin offers.

package adapter

import io.tidings.CallRequest
import io.tidings.DecryptionKeys
import io.tidings.Header
import io.tidings.Hub
import io.tidings.HubOptions
import io.tidings.Retention
import io.tidings.TidingsException
import io.tidings.Webhook
import io.tidings.errorTable
import java.time.Duration
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonPrimitive

val RULES: Map<String, Step> =
    mapOf(
        "webhook.sign" to ::webhookSign,
        "webhook.verify" to ::webhookVerify,
        "jwe.decrypt" to ::jweDecrypt,
        "config.check" to ::configCheck,
        "error.code" to ::errorCode,
    )

private fun <T> withWebhook(given: Given, work: (Webhook) -> T): T = Webhook(given.texts("secrets")).use(work)

private suspend fun webhookSign(given: Given): Any? {
    val headers = withWebhook(given) { it.sign(given.text("id"), given.number("timestamp"), given.bytes("body")) }
    return mapOf("signature" to headers.first { it.name == "webhook-signature" }.value)
}

private suspend fun webhookVerify(given: Given): Any? {
    val headers = given.list("headers").map { pair -> pair.jsonArray.map { it.jsonPrimitive.content } }
    val named = headers.map { (name, value) -> Header(name, value) }
    val tolerance = given.numberOrNull("tolerance")
    return withWebhook(given) {
        try {
            if (tolerance == null) {
                it.verify(given.bytes("body"), named, given.number("now"))
            } else {
                it.verify(given.bytes("body"), named, given.number("now"), tolerance.toULong())
            }
            mapOf("ok" to true)
        } catch (error: TidingsException.InvalidWebhook) {
            mapOf("error" to error.code)
        }
    }
}

private suspend fun jweDecrypt(given: Given): Any? =
    DecryptionKeys(given.texts("keys")).use { mapOf("text" to String(it.decrypt(given.bytes("body")))) }

private suspend fun configCheck(given: Given): Any? {
    val request =
        CallRequest(
            config = given.bytes("config"),
            routeTypes = given.texts("routeTypes"),
            principal = "anyone",
            peer = "calling",
            open = given.texts("open"),
            requestId = "1",
            tool = "tool",
        )
    return Hub("memory:", options(given)).use { hub ->
        try {
            hub.beginCall(request).use { call ->
                val told = mapOf("accepted" to call.acceptedRoutes(), "ignored" to call.ignoredTriggers())
                call.cancel()
                told
            }
        } catch (error: TidingsException.InvalidConfig) {
            mapOf("faults" to faultsTold(error), "total" to error.total)
        } finally {
            hub.shutDown(CLOSE)
        }
    }
}

private suspend fun errorCode(given: Given): Any? {
    val code = given.text("code")
    val kind = errorTable().firstOrNull { it.code == code } ?: error("no error has the code $code")
    return mapOf("retryable" to kind.retryable)
}

/** How long a hub may take to close. */
val CLOSE: Duration = Duration.ofSeconds(10)

fun options(given: Given): HubOptions {
    val allow = given.within("allow")
    val keep = given.within("retention")
    val time = { name: String -> keep.numberOrNull(name)?.let(Duration::ofMillis) }
    val count = { name: String -> keep.numberOrNull(name)?.toULong() }
    val retention =
        Retention(
            maxEvents = count("maxEvents"),
            maxBytes = count("maxBytes"),
            maxAge = time("maxAgeMs"),
            afterClose = time("afterCloseMs"),
            maxTotalEvents = count("maxTotalEvents"),
            maxTotalBytes = count("maxTotalBytes"),
        )
    return HubOptions(
        allowNetworks = allow.texts("networks"),
        allowHosts = allow.texts("hosts"),
        allowHttp = allow.flag("http"),
        allowPorts = allow.list("ports").map { it.jsonPrimitive.content.toUShort() },
        headerNames = given.texts("headerNames"),
        redact = given.texts("redact"),
        requireSecret = given.flag("requireSecret"),
        defaultSecret = given.textOrNull("defaultSecret"),
        undeliverable = given.textOrNull("undeliverable"),
        maxBodyBytes = given.numberOrNull("maxBodyBytes")?.toULong(),
        retention = given.find("retention")?.let { retention },
    )
}
