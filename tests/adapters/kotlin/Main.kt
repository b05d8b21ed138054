// Answers the conformance runner over the Kotlin binding: a question a line on stdin, an answer a line on stdout. It only
// converts; what it says is what the library says.

package adapter

import io.tidings.TidingsException
import kotlin.system.exitProcess
import kotlinx.coroutines.runBlocking
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

private val FEATURES =
    listOf("webhook", "encryption", "config", "errors", "streams", "calls", "tasks", "processes", "crash", "outlets", "fanout")

typealias Step = suspend (Given) -> Any?

/** An error that the library raises is an outcome. */
fun errorTold(error: TidingsException): Map<String, Any?> =
    when (error) {
        is TidingsException.Failed -> mapOf("error" to error.code)
        is TidingsException.InvalidConfig -> mapOf("error" to "invalid_config", "faults" to faultsTold(error))
        is TidingsException.InvalidWebhook -> mapOf("error" to error.code)
    }

fun faultsTold(error: TidingsException.InvalidConfig): List<Map<String, String>> =
    error.faults.map { mapOf("path" to it.path, "rule" to it.rule) }

private suspend fun answer(stage: Stage, op: String, given: Given): Map<String, Any?> {
    if (op == "hello") return mapOf("out" to mapOf("surface" to "kotlin", "features" to FEATURES))
    val step = stage.find(op) ?: return mapOf("unsupported" to true)
    return try {
        mapOf("out" to step(given))
    } catch (error: TidingsException) {
        mapOf("out" to errorTold(error))
    } catch (error: Exception) {
        mapOf("error" to error.toString())
    }
}

fun main(): Unit = runBlocking {
    val stage = Stage(this)
    for (line in generateSequence(::readLine)) {
        val question = Json.parseToJsonElement(line).jsonObject
        val id: JsonElement = question.getValue("id")
        val given = Given(question.getValue("in").jsonObject)
        val found = answer(stage, question.getValue("op").jsonPrimitive.content, given)
        println(told(mapOf("id" to id) + found))
    }
    exitProcess(0)
}
