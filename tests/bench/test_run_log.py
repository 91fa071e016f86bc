"""The log of long runs: lines with their time, in a file; progress not too often, with an estimate."""

from __future__ import annotations

import run_log
from run_log import RunLog


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_lines_have_their_time_and_are_in_the_file(tmp_path, monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(run_log, "time", clock)
    log = RunLog(tmp_path / "out")
    clock.now += 90
    log.tell("a step ends")
    assert log.minutes() == 1.5
    assert capsys.readouterr().out == "   90.0 s  a step ends\n"
    assert (tmp_path / "out" / "log.txt").read_text() == "   90.0 s  a step ends\n"


def test_progress_is_told_not_too_often_and_by_the_pace_of_the_step(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(run_log, "time", clock)
    log = RunLog(tmp_path)
    clock.now += 50
    log.begin_step()
    for seconds, share in ((5, 0.1), (15, 0.25), (5, 0.3), (20, 0.5)):  # after 5, 20, 25 and 45 s of the step
        clock.now += seconds
        log.progress(share)
    # the first line is due: more than 15 s since the beginning; at 25 s the last line is 20 s old; and at 45 s
    assert log.lines == [
        "   55.0 s     10 %, about 45 s left",
        "   75.0 s     30 %, about 58 s left",
        "   95.0 s     50 %, about 45 s left",
    ]
