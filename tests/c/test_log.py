"""The library's own log, told to functions of the program's, and how they are let go of (B81)."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from c.declared import ctype, functions

OK, INVALID_ARGUMENT, INTERNAL, IN_CALLBACK = 0, 1, 14, 1001
ERROR, WARNING = 1, 2
Line = tuple[int, int, str, str]
LOG = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)
DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture(scope="module")
def lib(library: Path) -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library))
    for function in functions():
        if function.result == "tidings_result":
            getattr(lib, function.name).argtypes = [ctype(kind) for kind, _ in function.parameters]
    return lib


class Logger:
    """A logger whose lines, and whose finalizer, go to a queue."""

    def __init__(self, lib: ctypes.CDLL, data: int, told: Callable[[Logger], None] = lambda _: None) -> None:
        self.lib, self.data, self.handle = lib, data, ctypes.c_void_p()
        self.said: queue.Queue[Line | str] = queue.Queue()
        self.told = told
        # Kept as long as the library may call them.
        self.log, self.drop = LOG(self.on_log), DROP(self.on_drop)
        assert lib.tidings_logger_new(self.log, data, self.drop, ctypes.byref(self.handle)) == OK

    def on_log(self, data: int, level: int, target: int, target_len: int, message: int, message_len: int) -> None:
        texts = (ctypes.string_at(target, target_len).decode(), ctypes.string_at(message, message_len).decode())
        self.said.put((data or 0, level, *texts))  # ctypes has None for NULL
        self.told(self)

    def on_drop(self, data: int) -> None:
        assert (data or 0) == self.data
        self.said.put("finalized")

    def free(self) -> int:
        return int(self.lib.tidings_logger_free(self.handle))


def defect(lib: ctypes.CDLL) -> None:
    """Has an error logged, in this thread: by a call that panics inside."""
    lib.tidings_testing_panic()
    assert lib.tidings_last_error(ctypes.byref(ctypes.c_void_p())) == INTERNAL


@pytest.fixture
def finish() -> Iterator[list[Logger]]:
    """Loggers that are freed at the end, whatever the test came to."""
    loggers: list[Logger] = []
    yield loggers
    for logger in loggers:
        logger.free()


def test_what_a_hub_warns_of_in_a_thread_of_its_own(lib: ctypes.CDLL, finish: list[Logger]) -> None:
    logger = Logger(lib, 7)
    finish.append(logger)
    hub = ctypes.c_void_p()
    assert lib.tidings_hub_new(b"memory:", 7, None, ctypes.byref(hub)) == OK
    for flushed in (OK, INVALID_ARGUMENT):  # the second writer of a new stream is refused
        writer, seq, answer = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
        assert lib.tidings_hub_new_writer(hub, b"s", 1, b"n", 1, ctypes.byref(writer)) == OK
        assert lib.tidings_writer_append(writer, b"a.b", 3, b"{}", 2, None, 0, 0, ctypes.byref(seq)) == OK
        assert lib.tidings_writer_flush(writer, 0, None, None, ctypes.byref(answer)) == flushed
        assert lib.tidings_answer_free(answer) == OK
        assert lib.tidings_writer_free(writer) == OK
    data, level, target, message = logger.said.get(timeout=60)
    assert (data, level, target) == (7, WARNING, "tidings.committer")
    assert message.startswith("a writer was refused; its buffered events are dropped stream=")
    assert lib.tidings_hub_free(hub) == OK


def test_each_has_its_own_data_and_is_told_everything_until_it_is_freed(lib: ctypes.CDLL) -> None:
    first, second = Logger(lib, 1), Logger(lib, 2)
    defect(lib)
    assert first.free() == OK
    assert first.free() == INVALID_ARGUMENT
    defect(lib)
    assert second.free() == OK
    for logger, lines in ((first, 1), (second, 2)):
        said = [logger.said.get_nowait() for _ in range(lines + 1)]
        assert [line[:3] for line in said[:-1]] == [(logger.data, ERROR, "tidings.bridge.guard")] * lines
        assert "a defect of tidings (panic)" in said[0][3]
        assert "forced" not in said[0][3], "a panic's own text may be a payload"
        assert said[-1] == "finalized"
        assert logger.said.empty(), "once, and nothing after it"
    defect(lib)


def test_who_frees_it_waits_for_a_call_in_another_thread(lib: ctypes.CDLL) -> None:
    entered, leave = threading.Event(), threading.Event()

    def told(logger: Logger) -> None:
        entered.set()
        assert leave.wait(60)
        logger.said.put("returns")

    logger = Logger(lib, 3, told)
    caller = threading.Thread(target=defect, args=[lib])
    caller.start()
    assert entered.wait(60)
    freeing = threading.Event()

    def free() -> None:
        freeing.set()
        assert logger.free() == OK
        logger.said.put("freed")

    freer = threading.Thread(target=free)
    freer.start()
    assert freeing.wait(60)
    leave.set()
    freer.join()
    caller.join()
    assert logger.free() == INVALID_ARGUMENT
    said = [logger.said.get_nowait() for _ in range(4)]
    assert said[1:] == ["returns", "finalized", "freed"]
    assert logger.said.empty()


def test_freed_from_inside_it_ends_with_the_call(lib: ctypes.CDLL) -> None:
    def told(logger: Logger) -> None:
        assert logger.free() == OK
        logger.said.put("returns")

    logger = Logger(lib, 4, told)
    defect(lib)
    said = [logger.said.get_nowait() for _ in range(3)]
    assert said[1:] == ["returns", "finalized"], "after the call that freed it"
    assert logger.free() == INVALID_ARGUMENT
    defect(lib)
    assert logger.said.empty()


def test_from_inside_nothing_else_may_be_called(lib: ctypes.CDLL, finish: list[Logger]) -> None:
    """Whatever it is: a call that waits for a lock of the one who logs would wait for ever."""
    allowed = {
        "tidings_last_error": INVALID_ARGUMENT,
        "tidings_last_faults": INVALID_ARGUMENT,
        "tidings_text_get": INVALID_ARGUMENT,
        "tidings_text_free": OK,
        "tidings_result_name": INVALID_ARGUMENT,
        "tidings_result_retryable": INVALID_ARGUMENT,
        "tidings_logger_free": OK,
        "tidings_port_free": OK,
    }
    came: dict[str, int] = {}
    messages: list[str] = []
    other = Logger(lib, 6)
    finish.append(other)
    port = ctypes.c_void_p()
    assert lib.tidings_port_new(ctypes.byref(port)) == OK

    def told(logger: Logger) -> None:
        for function in functions():
            if function.result == "tidings_result":
                nothing = [None if ctype(kind) is ctypes.c_void_p else 0 for kind, _ in function.parameters]
                came[function.name] = getattr(lib, function.name)(*nothing)
        came["another logger"], came["another port"] = other.free(), lib.tidings_port_free(port)
        messages.append(message(lib))

    logger = Logger(lib, 5, told)
    finish.append(logger)
    defect(lib)
    assert len(came) > 80
    assert {name: result for name, result in came.items() if result != IN_CALLBACK} == allowed
    assert messages == ["tidings_port_free: must not be called from inside a callback or its finalizer"]
    assert lib.tidings_port_free(port) == OK, "nothing was done"


def message(lib: ctypes.CDLL) -> str:
    """That of the last failure in this thread."""
    text, data, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    assert lib.tidings_last_error(ctypes.byref(text)) == OK
    assert lib.tidings_text_get(text, ctypes.byref(data), ctypes.byref(length)) == OK
    said = ctypes.string_at(data, length.value).decode()
    assert lib.tidings_text_free(text) == OK
    return said


def test_several_are_told_and_freed_by_many_threads(lib: ctypes.CDLL) -> None:
    made: list[Logger] = []

    def work() -> None:
        for data in range(50):
            logger = Logger(lib, data)
            made.append(logger)
            defect(lib)
            assert logger.free() == OK

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for logger in made:
        said = []
        while not logger.said.empty():
            said.append(logger.said.get_nowait())
        assert said.count("finalized") == 1
        assert said[-1] == "finalized"
        assert len(said) > 1, "its own thread's line at the least"


def test_what_is_refused_is_not_finalized(lib: ctypes.CDLL) -> None:
    finalized: list[int] = []
    drop = DROP(finalized.append)
    log = LOG(lambda *_: None)
    logger = ctypes.c_void_p()
    assert lib.tidings_logger_new(None, 5, drop, ctypes.byref(logger)) == INVALID_ARGUMENT
    assert lib.tidings_logger_new(log, 5, drop, None) == INVALID_ARGUMENT
    assert (logger.value, finalized) == (None, [])
