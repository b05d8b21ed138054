// Reading what the runner gives, and writing what it is told.

package adapter

import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long

/** Members that are null count as absent. */
class Given(private val members: JsonObject) {
    fun find(name: String): JsonElement? = members[name].takeIf { it !is JsonNull }

    private fun get(name: String): JsonElement = find(name) ?: error("$name is missing")

    fun text(name: String): String = get(name).jsonPrimitive.content

    fun textOrNull(name: String): String? = find(name)?.jsonPrimitive?.content

    fun number(name: String): Long = get(name).jsonPrimitive.long

    fun numberOrNull(name: String): Long? = find(name)?.jsonPrimitive?.long

    fun flag(name: String): Boolean = find(name)?.jsonPrimitive?.boolean ?: false

    fun bytes(name: String): ByteArray = bytesOf(get(name))

    fun bytesOrNull(name: String): ByteArray? = find(name)?.let(::bytesOf)

    fun list(name: String): List<JsonElement> = find(name)?.jsonArray ?: emptyList()

    fun texts(name: String): List<String> = list(name).map { it.jsonPrimitive.content }

    fun within(name: String): Given = Given(find(name)?.jsonObject ?: JsonObject(emptyMap()))
}

/** Bytes are a text or `{"hex": …}`. */
private fun bytesOf(value: JsonElement): ByteArray {
    if (value !is JsonObject) return value.jsonPrimitive.content.toByteArray()
    val hex = value.getValue("hex").jsonPrimitive.content
    return ByteArray(hex.length / 2) { hex.substring(2 * it, 2 * it + 2).toInt(16).toByte() }
}

fun told(value: Any?): JsonElement =
    when (value) {
        null -> JsonNull
        is JsonElement -> value
        is String -> JsonPrimitive(value)
        is Boolean -> JsonPrimitive(value)
        is Number -> JsonPrimitive(value)
        is ULong -> JsonPrimitive(value)
        is UInt -> JsonPrimitive(value.toLong())
        is Map<*, *> -> JsonObject(value.entries.associate { (name, member) -> name as String to told(member) })
        is List<*> -> JsonArray(value.map(::told))
        is ByteArray -> bytesTold(value)
        else -> error("no form in JSON: $value")
    }

private fun bytesTold(bytes: ByteArray): JsonElement {
    val text = String(bytes)
    if (text.toByteArray().contentEquals(bytes)) return JsonPrimitive(text)
    return told(mapOf("hex" to bytes.joinToString("") { "%02x".format(it) }))
}
