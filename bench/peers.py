"""MaRC beside peers that pip can install, each in an environment of its own, on the same model and text, on the CPU.

python bench/peers.py --envs ~/.cache/rationales-peers       # makes the environments at first: 2 GB and minutes each
python bench/peers.py --envs DIR --only lime shap

Every peer is a process that has loaded the model (a folder that save_pretrained wrote) and warmed up on a short text;
then all explain the same text in turns. A peer that cannot be installed or does not run is listed with the reason.
torch is the version of constraints.txt; where pip would fetch CUDA libraries the peer is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import torch
from subjects import SIZES, of_length, text_model, words
from timing import arguments, headline, ratio, ready, run, save, setting, table

from rationales.errors import ModelError, OptionError
from rationales.files import write_text
from rationales.models.catalogue import load_with_transformers

HERE = Path(__file__).resolve().parent
# What is installed beside torch and transformers.
PEERS = {
    "lime": ["lime==0.2.0.1"],
    "shap": ["shap==0.51.0"],
    "inseq": ["inseq==0.7.1"],
    "ferret-xai": ["ferret-xai==0.4.2", "pyarrow<22"],  # later ones want a NumPy that it does not allow
    "interpreto": ["interpreto==0.5.2"],
}
OURS = "rationales"
MARC = f"{OURS}: marc"


class LeftOutError(Exception):
    """A peer that is not measured, and why."""


def environment(name: str, folder: Path) -> Path:
    """The Python of a peer's environment, made if need be."""
    home = folder / name
    python = home / "bin" / "python"
    pins = [line for line in (HERE.parent / "constraints.txt").read_text("utf-8").splitlines() if "torch==" in line]
    requirements = ["torch", "transformers", *PEERS[name]]
    listing = "\n".join([*pins, *requirements])
    stamp = home / "installed.txt"
    if stamp.is_file() and stamp.read_text("utf-8") == listing:
        return python
    print(f"making {home}", flush=True)
    venv.create(home, with_pip=True, clear=True)
    constraints = write_text(home / "constraints.txt", "\n".join(pins))
    report = home / "report.json"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), *requirements]
    _pip([*pip, "--dry-run", "--report", str(report)])
    planned = [package["metadata"]["name"].lower() for package in json.loads(report.read_text("utf-8"))["install"]]
    if any(package_name.startswith("nvidia") for package_name in planned):
        raise LeftOutError("pip would fetch CUDA libraries with it; point pip at an index with CPU builds of torch")
    _pip(pip)
    write_text(stamp, listing)
    return python


def _pip(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise LeftOutError(f"pip: {errors[0] if errors else 'no reason given'}")


class Child:
    """A process that explains; see bench/peer_run.py."""

    def __init__(self, name: str, python: Path, folder: Path, threads: int, limit: float) -> None:
        self.limit = limit
        command = [str(python), str(HERE / "peer_run.py"), name, str(folder), str(threads)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": str(threads),
                "TOKENIZERS_PARALLELISM": "false",
            },
        )
        answer = self.read_answer()
        self.ways, self.version = answer["ready"], answer["version"]

    def explain(self, explainer: str, text: str) -> dict[str, float]:
        """Seconds by either clock."""
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps({"way": explainer, "text": text}) + "\n").encode())
        self.process.stdin.flush()
        return self.read_answer()

    def read_answer(self) -> dict[str, Any]:
        """What it says next."""
        stream = self.process.stdout
        assert stream is not None
        if not select.select([stream], [], [], self.limit)[0]:
            raise LeftOutError(f"took more than {self.limit:g} s")
        line = stream.readline()
        answer = json.loads(line) if line else {"error": "it ended without a word"}
        if "error" in answer:
            raise LeftOutError(answer["error"])
        return dict(answer)

    def end(self) -> None:
        """Let go of it."""
        self.process.kill()
        self.process.wait()


def compare(args: argparse.Namespace, model: Path, text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Seconds of every explainer in every round, and who was left out for what reason."""
    children: dict[str, Child] = {}
    out: dict[str, str] = {}
    results: dict[str, dict[str, Any]] = {}

    def leave(name: str, error: Exception) -> None:
        out[name] = str(error)
        if name in children:
            children.pop(name).end()
        for key in [key for key in results if key.startswith(f"{name}: ")]:
            del results[key]

    try:
        for name in [OURS, *args.only]:
            try:
                python = Path(sys.executable) if name == OURS else environment(name, args.envs)
                children[name] = Child(name, python, model, args.threads, args.limit)
                for explainer in children[name].ways:
                    children[name].explain(explainer, words(8))
                    results[f"{name}: {explainer}"] = {"version": children[name].version, "wall": [], "cpu": []}
            except LeftOutError as error:
                leave(name, error)
        for _ in range(args.repeat):
            for name, child in list(children.items()):
                try:
                    for explainer in child.ways:
                        spent = child.explain(explainer, text)
                        for clock in ("wall", "cpu"):
                            results[f"{name}: {explainer}"][clock].append(spent[clock])
                except LeftOutError as error:
                    leave(name, error)
    finally:
        for child in children.values():
            child.end()
    return results, out


def saved(model: Any, folder: Path) -> Path:
    """The model and its tokenizer as any version of transformers reads them."""
    module = model.networks[0].module
    if not hasattr(module, "save_pretrained"):  # the embedded model runs without transformers' classes
        module = load_with_transformers()
    module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    if config.get("tokenizer_class") == "TokenizersBackend":  # a name that transformers 4 does not know
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        write_text(path, json.dumps(config))
    return folder


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--envs", type=Path, help="folder for the environments; without it nothing is run")
    parser.add_argument("--model", default=None, help=f"a model of ours or a random one: {', '.join(SIZES)}")
    parser.add_argument("--only", nargs="*", default=list(PEERS), choices=list(PEERS), help="peers to run")
    parser.add_argument("--length", default="40w", help="of the text: tokens, or 40w for words")
    parser.add_argument("--limit", type=float, default=300, help="seconds that one explanation may take")
    parser.set_defaults(threads=torch.get_num_threads())
    args = parser.parse_args()
    if args.quick:
        parser.set_defaults(model="embedded", length="12w", repeat=1)
        args = parser.parse_args()
    if args.envs is None:
        print("peers: give --envs, a folder for the environments of the peers; skipped")
        return
    device = ready(args)
    if device.type != "cpu":
        raise OptionError("the peers are compared on the CPU: --device cpu")
    model = text_model(args.model or "minilm-reviews", device)
    if model is None and args.model is None:
        model = text_model("embedded", device)
    if model is None:
        raise ModelError(f"{args.model} is not installed (make experiments)")
    args.envs.mkdir(parents=True, exist_ok=True)
    folder = saved(model, args.envs / f"model-{args.model or model.name}")
    text = of_length(model, args.length)
    print(f"{model.name} on {headline(device)}; a text of {len(text.split())} words", flush=True)
    results, out = compare(args, folder, text)
    if OURS in out:
        raise ModelError(f"our own method did not run: {out[OURS]}")
    marc_times = results[MARC][args.clock]
    rows = []
    for name, result in results.items():
        times = result[args.clock]
        result["ratio"] = ratio(times, marc_times)
        rows.append([name, result["version"], f"{statistics.median(times):.2f}", f"{result['ratio']:.2f}"])
    save(args.out, {"setting": setting(device, args.clock), "model": model.name, "rows": results, "left_out": out})
    print(table(("peer", "version", f"s ({args.clock})", "times MaRC"), rows))
    for name, reason in out.items():
        print(f"{name} is left out: {reason}")


if __name__ == "__main__":
    run(main)
