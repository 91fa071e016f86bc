"""A speed benchmark with two versions of the package, run in turns on the same machine: seconds of both, and the ratio.

git worktree add /tmp/before 5cc7963
python bench/two_versions.py --before /tmp/before speed.py --models embedded bert-base --device cuda
python bench/two_versions.py --before /tmp/before --rounds 2 rivals.py --parts rivals --threads 1 --clock cpu

Everything after the name of the benchmark goes to it. --before: a checkout, or only its Python files; large files that
both versions share (the embedded model, zoo/) are then linked from this checkout. The lowest time of all rounds counts
for both, and a ratio below 1 says that the present version is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timing import table

HERE = Path(__file__).resolve().parents[1]
SHARED_FOLDERS = ("src/rationales/models/embedded", "zoo/minilm-reviews")
COUNTED = {"rivals": "seconds", "bare": "ms_per_step"}  # measurement of bench/rivals.py -> the compared figure


def link_shared_files(before: Path) -> None:
    """Link the files of `SHARED_FOLDERS` that the older checkout lacks."""
    for folder in SHARED_FOLDERS:
        for path in (HERE / folder).glob("*"):
            link = before / folder / path.name
            if path.is_file() and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path)


def run_benchmark(root: Path, script: str, arguments: list[str], out: Path) -> dict[str, float]:
    """The figures of one run of a benchmark with the package in `root`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(root / "bench" / script), *arguments, "--out", str(out)]
    subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
    return figures(json.loads(out.read_text()))


def figures(results: Mapping[str, Any]) -> dict[str, float]:
    """Title of a row -> seconds, from what bench/speed.py or bench/rivals.py writes."""
    if "rows" in results:
        return {
            f"{row['model']}, {row['input']}, {row['inputs']} at once, {row['preset']}": row["seconds_per_input"]
            for row in results["rows"]
        }
    titles = {"rivals": "{method}", "bare": "a step of {texts} x {length}, ms"}
    return {
        titles[measurement].format(**row): row[figure]
        for measurement, figure in COUNTED.items()
        for row in results.get(measurement, ())
    }


def compare(before: list[dict[str, float]], after: list[dict[str, float]]) -> list[list[str]]:
    """Title, lowest figure of both versions and their ratio, for every row that both have."""
    lines = []
    for title in after[0]:
        if title in before[0]:
            old, new = (min(run[title] for run in runs) for runs in (before, after))
            lines.append([title, f"{old:.4f}", f"{new:.4f}", f"{new / old:.2f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="checkout of the older version; without it nothing is run")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each version")
    parser.add_argument("script", nargs="?", default="speed.py", choices=["speed.py", "rivals.py"])
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the benchmark")
    args = parser.parse_args()
    if args.before is None:
        print("two_versions: give --before, a checkout of the older version; skipped")
        return
    before_root = args.before.resolve()
    link_shared_files(before_root)
    runs: dict[Path, list[dict[str, float]]] = {before_root: [], HERE: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            for version, root in enumerate(runs):
                out = Path(folder) / f"{number}-{version}.json"
                runs[root].append(run_benchmark(root, args.script, args.arguments, out))
    print(table([args.script, "before", "now", "now / before"], compare(runs[before_root], runs[HERE])))


if __name__ == "__main__":
    main()
