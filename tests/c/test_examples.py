"""The examples of the C binding: built against an installed library, by warnings that are errors, and run."""

from __future__ import annotations

import base64
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest
import standardwebhooks
from c.declared import EXAMPLES, WARNINGS, need
from joserfc import jwe
from joserfc.jwk import OKPKey

NAMES = ["resume", "webhook", "poll", "fanout", "tasks", "log", "receiver"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CHECKED = ["valgrind", "--quiet", "--error-exitcode=9", "--errors-for-leak-kinds=definite", "--leak-check=full"]
# Seconds for what valgrind runs, which takes twenty on a machine at rest and sixty on a busy one.
LONG = 600
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
RESUMED = """a reader:
0 {"step":0}
1 {"step":1}
2 {"step":2}
another, from its cursor:
3 {"step":3}
4 {"step":4}
5 {"step":5}
6 {"step":6}
the end
"""
TAGGED = '"_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"}'
NOTES = '"resourceSubscriptions":["file:///notes/today"]'
METHOD = '{"jsonrpc":"2.0","method":"notifications/'
TOLD = [
    # Each once, whatever was published in between, and each in its own protocol's words.
    f'client 0: {METHOD}tools/list_changed"}}',
    f'client 0: {METHOD}resources/updated","params":{{"uri":"file:///notes/today"}}}}',
    f'client 1: {METHOD}subscriptions/acknowledged","params":{{{TAGGED},"notifications":{{{NOTES}}}}}}}',
    f'client 1: {METHOD}resources/updated","params":{{{TAGGED},"uri":"file:///notes/today"}}}}',
    "client 1: its listener has ended",
    "client 2: does not read, 1 listener less",
    "failed: 1",
]


def flags_of(prefix: Path) -> list[str]:
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    if shutil.which("pkg-config") is None:
        return ["-I", str(prefix / "include"), "-L", str(prefix / "lib"), "-ltidings"]
    asked = ["pkg-config", "--cflags", "--libs", "tidings"]
    return subprocess.run(asked, check=True, capture_output=True, text=True, env=env).stdout.split()


@pytest.fixture(scope="module", params=["plain", "sanitized"])
def built(
    request: pytest.FixtureRequest, compiler: str, prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp(request.param)
    sanitize = SANITIZE if request.param == "sanitized" else []
    for name in NAMES:
        source = str(EXAMPLES / f"{name}.c")
        # `-D_POSIX_C_SOURCE`: poll() and sockets are POSIX's, not C11's.
        command = [compiler, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", *WARNINGS, *sanitize, source]
        linked = [*command, "-o", str(out / name), *flags_of(prefix), f"-Wl,-rpath,{prefix / 'lib'}"]
        done = subprocess.run(linked, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return out


def run(*command: str | Path, limit: float = 100) -> str:
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_append_and_resume(built: Path, tmp_path: Path) -> None:
    assert run(built / "resume", f"sqlite:{tmp_path}/tidings.db") == RESUMED


def test_two_tails_in_one_event_loop(built: Path, tmp_path: Path) -> None:
    said = run(built / "poll", f"sqlite:{tmp_path}/tidings.db").splitlines()
    assert {"tail 0 has 4 of 4", "tail 1 has 4 of 4"} <= set(said)


def test_fan_out_in_an_epoll_loop(built: Path, tmp_path: Path) -> None:
    said = run(built / "fanout", f"sqlite:{tmp_path}/tidings.db").splitlines()
    counts = [line for line in said if ": told " in line]
    assert counts == ["tools: told 2, skipped 1, failed 0"] * 3 + ["resource: told 2, skipped 1, failed 0"]
    assert sorted(line for line in said if line not in counts) == sorted(TOLD)


def test_a_task_that_asks_and_a_route_that_the_program_serves(built: Path, tmp_path: Path) -> None:
    assert run(built / "tasks", f"sqlite:{tmp_path}/tidings.db").splitlines() == [
        "task: input_required",
        'answered: {"size":{"action":"accept","content":{"size":42}}}',
        "route desk is told: completed, attempt 1",
        "in time: 1",
        "task: completed",
        "events: 2",
        "dead: 0",
    ]


WARNED = r"server WARNING tidings\.committer: a writer was refused; its buffered events are dropped stream=\w+ events=1 refused=.+"


def test_what_the_library_logs(built: Path, tmp_path: Path) -> None:
    warned, ends = run(built / "log", f"sqlite:{tmp_path}/tidings.db").splitlines()
    assert re.fullmatch(WARNED, warned)
    assert ends == "server ends"


def encrypted(plain: bytes) -> tuple[str, bytes]:
    """A private key, and a body that another library encrypted to it."""
    key = OKPKey.generate_key("X25519")
    header = {"alg": "ECDH-ES", "enc": "A256GCM"}
    body = jwe.encrypt_compact(header, plain, key, algorithms=["ECDH-ES", "A256GCM"])
    return json.dumps(key.as_dict(private=True)), body.encode()


def test_a_receiver_verifies_answers_and_decrypts(built: Path) -> None:
    jwk, body = encrypted('{"eventId":"evt_1","text":"é😀"}'.encode())
    other, _ = encrypted(b"{}")

    def receive(body: bytes, jwk: str, signed: bytes | None = None) -> str:
        now = datetime.now(tz=timezone.utc)
        signature = standardwebhooks.Webhook(SECRET).sign("msg_1", now, (body if signed is None else signed).decode())
        given = [built / "receiver", SECRET, jwk, "msg_1", str(int(now.timestamp())), signature]
        return subprocess.run(given, input=body, check=True, capture_output=True, timeout=100).stdout.decode()

    assert receive(body, jwk) == 'decrypted: {"eventId":"evt_1","text":"é😀"}\n'
    assert receive(b'{"eventId":"evt_1"}', jwk) == 'plain: {"eventId":"evt_1"}\n'
    assert receive(b'{"type":"verification","challenge":"n"}', jwk) == 'answered: {"challenge":"n"}\n'
    assert receive(body, other).startswith("refused: jwe_no_key: ")
    assert receive(body.rpartition(b".")[0], jwk).startswith("refused: jwe_malformed: ")
    assert receive(body, jwk, signed=b"another").startswith("refused: mismatch: ")


@pytest.fixture
def receiver() -> Iterator[tuple[str, queue.Queue[tuple[bytes, dict[str, str]]]]]:
    received: queue.Queue[tuple[bytes, dict[str, str]]] = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put((self.rfile.read(int(self.headers["content-length"])), dict(self.headers.items())))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", received
        server.shutdown()
        thread.join()


def test_a_watched_call_and_its_webhook(
    built: Path, tmp_path: Path, receiver: tuple[str, queue.Queue[tuple[bytes, dict[str, str]]]]
) -> None:
    url, received = receiver
    said = run(built / "webhook", f"sqlite:{tmp_path}/tidings.db", url, SECRET)
    assert "outcome: 1, on disk: 1" in said
    assert "delivered: 1" in said
    acknowledged = json.loads(said.splitlines()[0].removeprefix("acknowledged: "))
    assert acknowledged["requestId"] == 7
    body, headers = received.get_nowait()
    told = standardwebhooks.Webhook(SECRET).verify(body, {name.lower(): value for name, value in headers.items()})
    assert told["data"]["callId"] == acknowledged["callId"]
    assert told["data"]["outcome"]["result"]["content"][0]["text"] == "forty-two"
    assert received.empty()


@pytest.mark.timeout(LONG + 20)
def test_no_memory_is_lost_or_misused(built: Path, tmp_path: Path) -> None:
    need("valgrind", "valgrind")
    if built.name.startswith("sanitized"):
        pytest.skip("valgrind runs the plain build, and the sanitizers have run the other")
    # Most of the time goes into reading the library's symbols: side by side.
    with ThreadPoolExecutor() as pool:
        resumed = pool.submit(run, *CHECKED, built / "resume", f"sqlite:{tmp_path}/resume.db", limit=LONG)
        fanned_out = pool.submit(run, *CHECKED, built / "fanout", f"sqlite:{tmp_path}/fanout.db", limit=LONG)
        logged = pool.submit(run, *CHECKED, built / "log", f"sqlite:{tmp_path}/log.db", limit=LONG)
    assert resumed.result() == RESUMED
    assert re.fullmatch(f"{WARNED}\nserver ends\n", logged.result())
    assert set(TOLD) <= set(fanned_out.result().splitlines())


def build_own(name: str, compiler: str, prefix: Path, out: Path, *flags: str) -> Path:
    """A program of these tests, built as the examples are."""
    source = str(Path(__file__).with_name(f"{name}.c"))
    given = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-I", str(EXAMPLES), *WARNINGS, *flags]
    linked = [*flags_of(prefix), f"-Wl,-rpath,{prefix / 'lib'}"]
    done = subprocess.run(
        [compiler, *given, source, "-o", str(out / name), *linked], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out / name


def test_a_fork_while_other_threads_are_inside(compiler: str, prefix: Path, tmp_path: Path) -> None:
    program = build_own("fork", compiler, prefix, tmp_path)
    assert run(program, f"sqlite:{tmp_path}/tidings.db") == "events: 20\n"


def test_user_data_lives_as_long_as_it_is_called_with(compiler: str, prefix: Path, tmp_path: Path) -> None:
    program = build_own("ownership", compiler, prefix, tmp_path, *SANITIZE)
    assert run(program, f"sqlite:{tmp_path}/tidings.db", "100") == "finalized: 500 of 500\n"


@pytest.mark.timeout(LONG + 20)
def test_user_data_is_freed_once_and_by_whom_it_belongs_to(compiler: str, prefix: Path, tmp_path: Path) -> None:
    need("valgrind", "valgrind")
    program = build_own("ownership", compiler, prefix, tmp_path)
    assert run(*CHECKED, program, f"sqlite:{tmp_path}/tidings.db", "5", limit=LONG) == "finalized: 25 of 25\n"


def test_cmake_builds_them_all(prefix: Path, tmp_path: Path) -> None:
    need("cmake", "cmake")
    need("pkg-config", "pkg-config")
    configure = ["cmake", "-S", str(EXAMPLES), "-B", str(tmp_path), f"-DCMAKE_PREFIX_PATH={prefix}"]
    for command in (configure, ["cmake", "--build", str(tmp_path)]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir() if path.name in NAMES} == set(NAMES)
    assert {path.stem for path in EXAMPLES.glob("*.c")} == set(NAMES)


def test_the_readme_s_example(compiler: str, prefix: Path, tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```c\n(.*?)^```", (EXAMPLES.parent / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    (source,) = (block for block in blocks if "int main" in block)
    (tmp_path / "example.c").write_text(source)
    command = [compiler, "-std=c11", *WARNINGS, "example.c", "-o", "example", *flags_of(prefix)]
    done = subprocess.run(
        [*command, f"-Wl,-rpath,{prefix / 'lib'}"], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    subprocess.run([tmp_path / "example"], check=True, cwd=tmp_path, timeout=100)
    assert (tmp_path / "tidings.db").stat().st_mode & 0o777 == 0o600
