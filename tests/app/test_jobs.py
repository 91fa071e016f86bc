"""A job ends when it is told to, also between two reports; a quick request goes between the steps of a long one."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from torch import nn

from rationales.app.jobs import Job, JobStoppedError, VisitorJobs
from rationales.app.model_lock import ModelLock


def endless(job: Job) -> None:
    while True:
        time.sleep(0.005)
        job.report(0.5)


def test_results_and_errors_reach_the_caller():
    done = Job(lambda job: job.results.append(3), 5).start()
    assert done.wait(5)
    assert done.outcome() == [3]

    def fail(_job: Job) -> None:
        raise ValueError("reason")

    failed = Job(fail, 5).start()
    assert failed.wait(5)
    with pytest.raises(ValueError, match="reason"):
        failed.outcome()


def test_a_cancelled_job_stops():
    job = Job(endless, 60).start()
    job.cancel()
    assert job.wait(5)
    with pytest.raises(JobStoppedError, match="cancelled"):
        job.outcome()


def test_a_job_stops_at_its_time_limit():
    job = Job(endless, 0.05).start()
    assert job.wait(5)
    with pytest.raises(JobStoppedError, match="time limit"):
        job.outcome()


def test_a_job_that_does_not_report_stops_at_the_next_forward_pass():
    network, passes = nn.Linear(2, 2), []

    def work(_job: Job) -> None:
        while True:
            network(torch.zeros(1, 2))
            passes.append(1)

    job = Job(work, 60).start()
    while not passes:
        time.sleep(0.001)
    job.cancel()
    assert job.wait(5)
    network(torch.zeros(1, 2))  # other threads, and what comes later, are not stopped


def test_a_visitor_has_one_job_at_a_time():
    jobs = VisitorJobs()
    first = jobs.start("anna", Job(endless, 60))
    job_of_ben = jobs.start("ben", Job(endless, 60))
    second = jobs.start("anna", Job(endless, 60))
    assert first.wait(5)
    assert not job_of_ben.cancelled
    assert jobs.is_running("anna")
    assert jobs.cancel("anna")
    assert not jobs.is_running("anna")
    assert jobs.is_running("ben")
    assert not jobs.is_running("clara")
    assert second.wait(5)
    jobs.end("anna", second)
    assert not jobs.cancel("anna")
    jobs.stop_all()
    assert job_of_ben.wait(5)


def test_a_quick_request_runs_while_a_long_one_pauses():
    lock, order, ready = ModelLock(), [], threading.Event()

    def quick() -> None:
        ready.set()
        with lock.quick():
            order.append("quick")

    with lock.long():
        thread = threading.Thread(target=quick)
        thread.start()
        ready.wait(5)
        for _ in range(500):
            lock.pause()
            if order:
                break
            time.sleep(0.005)
        order.append("long")
    thread.join(5)
    assert order == ["quick", "long"]


def test_a_pause_without_waiting_requests_keeps_the_model():
    lock = ModelLock()
    with lock.long():
        lock.pause()
        assert not lock._lock.acquire(blocking=False)
