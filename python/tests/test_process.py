"""The process around a hub: import, fork, Ctrl-C and the end. Each in a process of its own."""

from pathlib import Path

import pytest
import tidings
from support import run_script


def events(folder: Path, scope: str, name: str) -> list[bytes]:
    hub = tidings.Hub(f"sqlite:{folder / 't.db'}")
    page = hub.run(hub.stream(scope, name).read(limit=100_000))
    hub.run(hub.close())
    return [event.payload for event in page.events]


def test_import_starts_no_thread(tmp_path: Path) -> None:
    code = """
        import os
        before = len(os.listdir("/proc/self/task"))
        import tidings
        hub = tidings.Hub()
        assert len(os.listdir("/proc/self/task")) == before
        assert os.listdir(".") == []
        import sys
        assert "asyncio" not in sys.modules and "trio" not in sys.modules
    """
    run_script(code, tmp_path)


def test_a_process_that_just_ends_loses_nothing(tmp_path: Path) -> None:
    code = """
        import tidings
        hub = tidings.Hub("sqlite:t.db")
        writer = hub.new_writer("s", "n")
        for n in range(10_000):
            writer.append(str(n))
        # Only what the hub made is left when the process ends.
        del hub
    """
    run_script(code, tmp_path)
    assert events(tmp_path, "s", "n") == [str(n).encode() for n in range(10_000)]


def test_the_end_of_a_process_in_which_somebody_waits(tmp_path: Path) -> None:
    code = """
        import asyncio, threading, tidings
        hub = tidings.Hub("sqlite:t.db")
        writer = hub.new_writer("s", "n")
        writer.append(b"0")
        hub.run(writer.flush())
        started = threading.Event()
        async def forever():
            started.set()
            try:
                async for item in hub.stream("s", "n").tail():
                    pass
            except tidings.ClosedError:
                pass
        threading.Thread(target=lambda: asyncio.run(forever()), daemon=True).start()
        started.wait()
        writer.append(b"1")
    """
    run_script(code, tmp_path)
    assert events(tmp_path, "s", "n") == [b"0", b"1"]


def test_an_exception_at_the_end_is_pythons_own(tmp_path: Path) -> None:
    code = """
        import sys, tidings
        hub = tidings.Hub("sqlite:t.db")
        hub.new_writer("s", "n").append(b"0")
        sys.exit(0)
    """
    run_script(code, tmp_path)
    assert events(tmp_path, "s", "n") == [b"0"]


FORK = """
    import gc, os, sys, traceback
    import tidings

    hub = tidings.Hub("sqlite:t.db")
    {before}
    writer = hub.new_writer("parent", "n")
    writer.append(b"0")
    hub.run(writer.flush())
    tail = hub.stream("parent", "n").tail()
    shared = hub.stream("parent", "shared")

    pid = os.fork()
    if pid == 0:
        try:
            for use in (
                lambda: writer.append(b"child"),
                lambda: hub.run(writer.flush()),
                lambda: hub.run(tail.__anext__()),
                lambda: hub.run(shared.append(b"child")),
                lambda: tail.cursor and writer.cursor(),
            ):
                try:
                    use()
                except tidings.ForkedError:
                    pass
                else:
                    raise AssertionError("an object of the parent works")
            del writer, tail, shared
            gc.collect()
            mine = hub.new_writer("child", "n")
            mine.append(b"1")
            hub.run(mine.flush())
            page = hub.run(hub.stream("parent", "n").read())
            assert [event.payload for event in page.events] == [b"0"]
            mine.append(b"2")
        except BaseException:
            traceback.print_exc()
            os._exit(4)
        sys.exit(0)  # the child ends as a process does

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    writer.append(b"3")
    hub.run(writer.flush())
    assert [event.seq for event in [hub.run(tail.__anext__()), hub.run(tail.__anext__())]] == [0, 1]
"""


@pytest.mark.parametrize("before", ["", "hub.open()"], ids=["not open", "open"])
def test_parent_and_child_both_go_on_after_a_fork(tmp_path: Path, before: str) -> None:
    """Field report B70."""
    run_script(FORK.format(before=before), tmp_path)
    assert events(tmp_path, "parent", "n") == [b"0", b"3"]
    assert events(tmp_path, "child", "n") == [b"1", b"2"]


def test_a_hub_made_before_the_fork_is_not_opened_by_it(tmp_path: Path) -> None:
    """Field report B70, as gunicorn --preload does it: the hub is at module level, the workers use it."""
    code = """
        import os, sys, tidings
        hub = tidings.Hub("sqlite:t.db")
        pids = []
        for worker in range(4):
            pid = os.fork()
            if pid == 0:
                writer = hub.new_writer("workers", str(worker))
                writer.append_many([str(n) for n in range(100)])
                hub.run(hub.stream("workers", "shared").append(str(worker)))
                sys.exit(0)
            pids.append(pid)
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 4
        assert hub.stats().groups == 0
    """
    run_script(code, tmp_path)
    for worker in range(4):
        assert events(tmp_path, "workers", str(worker)) == [str(n).encode() for n in range(100)]
    assert sorted(events(tmp_path, "workers", "shared")) == [b"0", b"1", b"2", b"3"]


def test_a_fork_inside_a_running_loop(tmp_path: Path) -> None:
    code = """
        import asyncio, os, sys, tidings
        hub = tidings.Hub("sqlite:t.db")

        async def read_one(scope):
            writer = hub.new_writer(scope, "n")
            writer.append(b"0")
            await writer.flush()
            tail = hub.stream(scope, "n").tail(0)
            waiting = asyncio.ensure_future(tail.__anext__())
            await asyncio.sleep(0)
            return writer, waiting

        async def main():
            writer, waiting = await read_one("parent")
            pid = os.fork()
            if pid == 0:
                async def child():
                    mine, event = await read_one("child")
                    mine.append(b"1")
                    assert (await event).payload == b"1"
                asyncio.run(child())
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            writer.append(b"1")
            assert (await waiting).payload == b"1"

        asyncio.run(main())
    """
    run_script(code, tmp_path)
    assert events(tmp_path, "parent", "n") == [b"0", b"1"]


INTERRUPT = """
    import os, signal, sys, threading, time
    import tidings

    # A shell has SIGINT ignored in what it starts in the background, and Python leaves that as it is.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hub = tidings.Hub("memory:")  # a busy disk is none of its business
    writer = hub.new_writer("s", "n")
    writer.append(b"0")
    hub.run(writer.flush())
    stream = hub.stream("s", "n")
    main, worker = threading.main_thread().ident, None

    def waits(ident):
        # The innermost Python frame of the thread is the one that calls the core to wait.
        frame = sys._current_frames().get(ident)
        return frame is not None and frame.f_code.co_name == "wait" and "_port" in frame.f_code.co_filename

    def interrupt():
        while not (waits(main) and waits(worker.ident)):
            time.sleep(0)  # lets go of the interpreter, which the others need to get there
        os.kill(os.getpid(), signal.SIGINT)

    got = []
    worker = threading.Thread(target=lambda: got.append(hub.run(stream.tail(0).__anext__())))
    worker.start()
    threading.Thread(target=interrupt).start()
    tail = stream.tail(0)
    try:
        hub.run(tail.__anext__())
    except KeyboardInterrupt:
        pass
    else:
        sys.exit("not interrupted")
    # The other thread still waits, and all works on.
    assert not got
    writer.append(b"1")
    worker.join()
    assert got[0].payload == b"1"
    assert hub.run(tail.__anext__()).payload == b"1"
"""


def test_ctrl_c_ends_a_wait_of_the_main_thread_only(tmp_path: Path) -> None:
    """Field report B72."""
    run_script(INTERRUPT, tmp_path)


def test_the_last_words_of_the_core_are_logged(tmp_path: Path) -> None:
    code = """
        import logging, sys, tidings
        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
        hub = tidings.Hub("sqlite:t.db")
        hub.run(hub.stream("s", "n").append(b"0"))
        # Nobody waits for this one: the key is taken, and the end of the process finds out.
        hub.new_writer("s", "n").append(b"1")
    """
    said = run_script(code, tmp_path)
    assert said.startswith("WARNING tidings."), said
    assert events(tmp_path, "s", "n") == [b"0"]
