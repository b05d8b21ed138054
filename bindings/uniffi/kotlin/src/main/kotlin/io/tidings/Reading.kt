package io.tidings

/**
 * What comes next: at least one event or a gap; null once the stream is closed and everything was read, or the tail was stopped. A
 * coroutine that is cancelled while it waits takes nothing along.
 */
suspend fun Tail.next(): Page? {
    while (true) {
        ready()
        when (val taken = take()) {
            is Taken.Batch -> return taken.page
            is Taken.End -> return null
            is Taken.Nothing -> {}
        }
    }
}
