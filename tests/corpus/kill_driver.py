"""Runs a corpus again and again, each time killed with SIGKILL at another moment; prints what each run did.

usage: kill_driver.py TABLE OUT MOMENT...

A moment is the number of the fsync or rename that is never made, or, with an s behind it, a number of seconds.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

import torch

import rationales
from rationales import corpus


def main() -> None:
    table, out, *moments = sys.argv[1:]
    torch.set_num_threads(1)
    model = rationales.load()
    with tempfile.TemporaryDirectory() as folder:  # whatever is computed once is computed before the children start
        corpus.run(table, folder, model=model, methods=["random"], limit=1)
    for moment in [*moments, ""]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            if moment.isdecimal():
                kill_at(int(moment))
            with os.fdopen(writing, "w", buffering=1) as pipe:
                corpus.run(
                    *(table, out),
                    model=model,
                    methods=["random"],
                    shard_size=4,
                    on_shard=functools.partial(report, pipe),
                )
            os._exit(0)
        os.close(writing)
        if moment.endswith("s"):
            time.sleep(float(moment[:-1]))
            os.kill(child, signal.SIGKILL)
        with os.fdopen(reading) as pipe:
            finished = [int(number) for number in pipe.read().split()]
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        recorded = Path(out, "manifest.json")
        entries = json.loads(recorded.read_text())["shards"] if recorded.exists() else []
        shards = [entry["index"] for entry in entries]
        sys.stdout.write(json.dumps({"status": status, "finished": finished, "recorded": shards}) + "\n")


def report(pipe: TextIO, entry: corpus.ShardEntry) -> None:
    pipe.write(f"{entry.index}\n")


def kill_at(moment: int) -> None:
    """Kill this process in place of the call of this number, counting fsync and rename."""
    calls = 0

    def counted(function):
        def call(*arguments):
            nonlocal calls
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)

        return call

    os.fsync, os.replace = counted(os.fsync), counted(os.replace)


if __name__ == "__main__":
    main()
