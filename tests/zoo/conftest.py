"""The scripts in zoo/ lie beside the package, not inside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
