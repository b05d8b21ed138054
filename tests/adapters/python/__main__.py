"""Answers the conformance runner over the public Python API.

  python tests/adapters/python async    under asyncio
  python tests/adapters/python sync     without an event loop, by `Hub.run`

A question a line on stdin, an answer a line on stdout. It only converts; what it says is what the library says.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from steps import Stage, error_told
from tidings import TidingsError

FEATURES = [
    "webhook",
    "encryption",
    "config",
    "errors",
    "streams",
    "calls",
    "tasks",
    "processes",
    "crash",
    "outlets",
    "fanout",
]
Runner = Callable[[Coroutine[Any, Any, Any]], Any]


def answer(stage: Stage, question: dict[str, Any], run: Runner) -> dict[str, Any]:
    if question["op"] == "hello":
        return {"out": {"surface": f"python_{stage.mode}", "features": FEATURES}}
    step = stage.find(question["op"])
    if step is None:
        return {"unsupported": True}
    try:
        return {"out": run(step(question["in"]))}
    except TidingsError as error:
        return {"out": error_told(error)}
    except Exception as error:  # noqa: BLE001 the runner is told whatever it is
        return {"error": f"{type(error).__name__}: {error}"}


def serve(stage: Stage, run: Runner) -> None:
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps({"id": question["id"], **answer(stage, question, run)}), flush=True)


def main() -> None:
    mode = sys.argv[1]
    logging.disable()  # what the library warns of is what the scenarios provoke
    stage = Stage(mode)
    if mode == "sync":
        serve(stage, stage.run)
    else:
        loop = asyncio.new_event_loop()
        serve(stage, loop.run_until_complete)
        loop.close()


if __name__ == "__main__":
    main()
