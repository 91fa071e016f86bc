"""The field over a pixel grid, forward and backward: the published way, unfolded to 41 x 41 neighbours, against ours.

python bench/field.py

Each figure comes from a process of its own: the best of a few runs, and the peak of its memory less what it held before
the first. The published way stops at a radius of 20 pixels whatever sigma is; ours goes as far as sigma does. A small
sigma fills the published window with numbers below 1e-38, which processors are slow at: judge by the largest sigma.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad, unfold

from rationales.masks.grid import grid_field

RADIUS = 20


def literal(w: Tensor, sigma: Tensor) -> Tensor:
    """(M, h, w) -> (M, h, w) as published: every pixel gathers w and sigma of its neighbours, all at once."""
    side = 2 * RADIUS + 1
    axis = torch.arange(-RADIUS, RADIUS + 1, dtype=w.dtype)
    square = (axis[:, None].square() + axis[None].square()).reshape(1, -1, 1)
    weights = unfold(pad(w, (RADIUS,) * 4)[:, None], side)  # (M, 41 * 41, h * w)
    widths = unfold(pad(sigma, (RADIUS,) * 4, value=1.0)[:, None], side)
    return (weights * torch.exp(-square / widths)).sum(1).view_as(w)


def measure(implementation: str, side: int, sigma: float, runs: int) -> dict[str, float]:
    """Milliseconds and megabytes of one implementation, in this process."""
    source = torch.Generator().manual_seed(0)
    w = torch.randn(1, side, side, generator=source).requires_grad_()
    spread = (sigma * (0.6 + 0.4 * torch.rand(1, side, side, generator=source))).clamp(min=0.6).requires_grad_()
    field: Callable[[Tensor, Tensor], Tensor] = literal if implementation == "unfold" else grid_field

    def once(w: Tensor, spread: Tensor) -> float:
        start = time.perf_counter()
        torch.autograd.grad(field(w, spread).sigmoid().mean(), (w, spread))
        return time.perf_counter() - start

    torch.autograd.grad(w.sigmoid().mean(), w)  # autograd's own threads and buffers
    before = peak_process_memory(reset=True)
    best = min(once(w, spread) for _ in range(runs))
    return {"ms": 1000 * best, "megabytes": peak_process_memory() - before}


def peak_process_memory(reset: bool = False) -> float:
    """Peak memory of this process since the last reset, in MB; NaN without /proc."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is held now
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10


def agreement(side: int, sigma: float) -> float:
    """The largest relative difference between the two ways, z and both gradients; sigma small enough for both."""
    source = torch.Generator().manual_seed(0)
    w = torch.randn(1, side, side, generator=source).requires_grad_()
    spread = (sigma * (0.6 + 0.4 * torch.rand(1, side, side, generator=source))).requires_grad_()
    results = []
    for field in (literal, grid_field):
        z = field(w, spread)
        results.append((z.detach(), *torch.autograd.grad(z.sigmoid().mean(), (w, spread))))
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(*results, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", type=int, nargs="+", default=[224, 384])
    parser.add_argument("--sigmas", type=float, nargs="+", default=[1.2, 5.0, 20.0])
    parser.add_argument("--one", help=argparse.SUPPRESS)  # JSON: what a process of its own measures
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(**json.loads(args.one))))
        return
    print(f"one mask, float32, CPU, {torch.get_num_threads()} threads, torch {torch.__version__}; forward + backward")
    print(f"largest relative difference between the two at 64 x 64, sigma up to 20: {agreement(64, 20.0):.1e}")
    print(f"{'side':>5} {'sigma':>6} {'unfold ms':>10} {'ours ms':>8} {'ratio':>6} {'unfold MB':>10} {'ours MB':>8}")
    for side in args.sides:
        for sigma in args.sigmas:
            old, new = (
                alone({"implementation": implementation, "side": side, "sigma": sigma, "runs": runs})
                for implementation, runs in (("unfold", 2), ("ours", 7))
            )
            print(
                f"{side:>5} {sigma:>6g} {old['ms']:>10.0f} {new['ms']:>8.1f} {old['ms'] / new['ms']:>6.0f} "
                f"{old['megabytes']:>10.0f} {new['megabytes']:>8.1f}",
                flush=True,
            )


def alone(settings: dict[str, object]) -> dict[str, float]:
    """`measure` in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--one", json.dumps(settings)], stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    main()
