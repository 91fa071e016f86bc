"""The benchmarks are scripts that import each other by name, or as parts of the folder where they run as modules."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]
