"""The log of a long run on a machine whose time is limited: lines with the time, progress, minutes so far."""

from __future__ import annotations

import time
from pathlib import Path

from rationales.files import write_text

REPORT_SECONDS = 15.0  # between two lines of progress


class RunLog:
    """Lines with the seconds since the beginning, printed and written to a file in a folder, which is created."""

    def __init__(self, out: Path, file_name: str = "log.txt") -> None:
        self.out, self.file_name = out, file_name
        self.began = self.reported = self.step_began = time.monotonic()
        self.lines: list[str] = []
        out.mkdir(parents=True, exist_ok=True)

    def minutes(self) -> float:
        """Minutes since the beginning."""
        return (time.monotonic() - self.began) / 60

    def tell(self, line: str) -> None:
        """Print a line with the time, and write all lines again."""
        self.lines.append(f"{time.monotonic() - self.began:7.1f} s  {line}")
        print(self.lines[-1], flush=True)
        write_text(self.out / self.file_name, "\n".join(self.lines) + "\n")

    def begin_step(self) -> None:
        """Estimate the time left from now on."""
        self.step_began = time.monotonic()

    def progress(self, share: float) -> None:
        """Tell the share of a step that is done and the time that it still needs at this pace, not too often."""
        now = time.monotonic()
        if now - self.reported > REPORT_SECONDS and share > 0:
            self.reported = now
            self.tell(f"   {100 * share:.0f} %, about {(now - self.step_began) * (1 - share) / share:.0f} s left")
            self.save_progress()

    def save_progress(self) -> None:
        """Write what a stopped run would need; nothing by default."""
