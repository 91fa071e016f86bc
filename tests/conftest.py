"""What all tests share: no network, repeatable examples."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything reads it: a test never asks the network
# Some virtual machines announce AMX and end a process that uses it ("Illegal instruction" in a bfloat16 product).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

settings.register_profile(
    "rationales",
    deadline=None,  # the first example pays for imports and tokenizers
    derandomize=True,  # the same examples everywhere: a failure is a change, not luck
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)  # pytest --hypothesis-profile=thorough
settings.load_profile("rationales")
