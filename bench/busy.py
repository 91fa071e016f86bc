"""Run time of two `rationales explain` processes at once, of one with one thread, and of one with default settings.

    python bench/busy.py [--repeat 5] [--clock cpu] [--baseline PYTHONPATH_OF_AN_OLDER_CHECKOUT]

Every repeat runs all cases one after another, so that other load on the machine affects all of them; the medians are
compared. "two at once" should be at most 1.5 times "one thread", and "as it comes" (default settings) no slower than
the older checkout's. With `--clock cpu` the mean CPU time of a process is compared: on a machine with other load it
still shows threads that wait in a busy loop.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

SENTENCE = "The acting is fine, but the plot is a mess."
WORDS = 160


def inputs(folder: Path) -> dict[str, list[str]]:
    """Title -> arguments of `rationales explain`: a sentence, a text of 160 words, and a picture with 3 steps."""
    sentence_words = SENTENCE.split()
    text = " ".join(sentence_words[number % len(sentence_words)] for number in range(WORDS))
    picture = folder / "picture.png"
    noise = np.random.default_rng(0).integers(0, 256, (14, 14, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((224, 224)).save(picture)
    return {
        "sentence": [SENTENCE],
        f"{WORDS} words": [text],
        "picture": ["--image", str(picture), "--set", "steps=3"],
    }


def seconds(arguments: list[str], processes: int, clock: str, **changes: str) -> float:
    """Wall-clock seconds until all of `processes` have explained the input, or the mean CPU seconds of one of them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, "-m", "rationales", "explain", *arguments]
    started, computed = time.perf_counter(), _computed()
    running = [
        subprocess.Popen(command, env=environment | changes, stdout=subprocess.DEVNULL) for _ in range(processes)
    ]
    if any(process.wait() for process in running):
        raise SystemExit("rationales explain failed")
    return time.perf_counter() - started if clock == "wall" else (_computed() - computed) / processes


def _computed() -> float:
    """CPU seconds of all child processes that have ended, summed over cores."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print one line for each input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--baseline", help="the src folder of an older checkout, to compare single runs with")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    args = parser.parse_args()
    print(f"{'input':<12}{'one thread':>12}{'two at once':>13}{'ratio':>7}{'as it comes':>13}{'older':>8}  (seconds)")
    with tempfile.TemporaryDirectory() as folder:
        for title, arguments in inputs(Path(folder)).items():
            cases: dict[str, tuple[int, dict[str, str]]] = {
                "one thread": (1, {"OMP_NUM_THREADS": "1"}),
                "two at once": (2, {}),
                "as it comes": (1, {}),
            }
            if args.baseline:
                cases["older"] = (1, {"PYTHONPATH": args.baseline})
            durations: dict[str, list[float]] = {name: [] for name in cases}
            for _ in range(args.repeat):
                for name, (processes, changes) in cases.items():
                    durations[name].append(seconds(arguments, processes, args.clock, **changes))
            median = {name: statistics.median(values) for name, values in durations.items()}
            ratio = median["two at once"] / median["one thread"]
            older = f"{median['older']:8.2f}" if args.baseline else f"{'-':>8}"
            print(
                f"{title:<12}{median['one thread']:>12.2f}{median['two at once']:>13.2f}{ratio:>7.2f}"
                f"{median['as it comes']:>13.2f}{older}"
            )


if __name__ == "__main__":
    main()
