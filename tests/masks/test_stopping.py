"""When a mask is good enough: the published rule word by word, the plateau rule, and when it is time to look."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rationales.masks.optimize import CALM_CHECKS, CALM_MOVEMENT, MIN_PLATEAU_STEPS, MaskProgress, stopping
from rationales.masks.settings import MaskSettings

SHARE = st.one_of(st.floats(0, 1), st.sampled_from([0.2, 0.3, 0.45]))
DROP = st.one_of(st.floats(0, 0.03), st.sampled_from([0.0124999, 0.0125001, 0.0049999, 0.0050001]))  # 1/80, 1/200


def progress(masks):
    """One mask after the other: (step, mean, mean_drop, mean_change, memory)."""
    step, mean, mean_drop, mean_change, calm = zip(*masks, strict=True)
    real = (torch.tensor(values, dtype=torch.float64) for values in (mean, mean_drop, mean_change))
    return MaskProgress(torch.tensor(step), *real, torch.tensor(calm))


def rule(stop, **settings):
    return stopping(MaskSettings(stop=stop, **settings))


MASKS = st.lists(
    st.tuples(st.integers(1, 900), SHARE, DROP, st.floats(0, 0.03), st.integers(0, 5)), min_size=1, max_size=6
)


class TestPaper:
    @given(MASKS)
    def test_is_the_published_rule(self, masks):
        """Steps are counted from 1 here and from 0 there: "step >= 199" is the 200th."""
        accepted, calm = rule("paper").accepts(progress(masks))
        for stops, (step, mean, mean_drop, _, before), after in zip(
            accepted.tolist(), masks, calm.tolist(), strict=True
        ):
            still = mean_drop < 1 / 200 or (mean_drop < 1 / 80 and mean < 0.2)
            late = step - 1 >= 199 or mean < 0.3
            assert stops == (still and late and mean < 0.45)
            assert after == before

    @pytest.mark.parametrize(
        ("step", "mean", "mean_drop", "expected"),
        [
            *[(199, 0.4, 0.004, False), (200, 0.4, 0.004, True)],  # at rest, but not before the 200th step
            *[(50, 0.31, 0.004, False), (50, 0.29, 0.004, True)],  # earlier only when few words are left
            *[(900, 0.46, 0.0, False), (900, 0.44, 0.0, True)],  # never with half of the text
            *[(50, 0.21, 0.012, False), (50, 0.19, 0.012, True), (50, 0.19, 0.013, False)],  # the last ones may move
        ],
    )
    def test_its_limits(self, step, mean, mean_drop, expected):
        accepted, _ = rule("paper").accepts(progress([(step, mean, mean_drop, 0.0, 0)]))
        assert accepted.tolist() == [expected]

    def test_looks_every_fifty_steps(self):
        assert rule("paper").interval == 50


class TestPlateau:
    @given(MASKS)
    def test_two_calm_looks_in_a_row_and_not_too_early(self, masks):
        accepted, calm = rule("plateau").accepts(progress(masks))
        for stops, (step, _, _, mean_change, before), after in zip(
            accepted.tolist(), masks, calm.tolist(), strict=True
        ):
            assert after == (before + 1 if mean_change < CALM_MOVEMENT else 0)
            assert stops == (after >= CALM_CHECKS and step >= MIN_PLATEAU_STEPS)

    def test_one_movement_and_the_count_begins_anew(self):
        calm = 0
        for mean_change, expected in [(0.001, False), (0.02, False), (0.001, False), (0.001, True)]:
            accepted, counted = rule("plateau").accepts(progress([(100, 0.5, 0.0, mean_change, calm)]))
            calm = int(counted)
            assert bool(accepted) == expected


@given(MASKS)
def test_a_number_of_steps_is_never_cut_short(masks):
    accepted, _ = rule("steps").accepts(progress(masks))
    assert not accepted.any()


@pytest.mark.parametrize("stop", ["steps", "plateau", "paper"])
class TestDue:
    @given(steps=st.integers(1, 1000))
    def test_looks_come_at_every_nth_step_and_at_the_end(self, stop, steps):
        stopping_rule = rule(stop, steps=steps)
        done, looks = 0, []
        while done < steps:
            assert stopping_rule.due(done) >= 1
            done += stopping_rule.due(done)
            looks.append(done)
        assert looks == sorted({*range(stopping_rule.interval, steps, stopping_rule.interval), steps})

    @given(steps=st.integers(2, 1000), data=st.data())
    def test_an_input_that_came_in_late_is_looked_at_after_as_many_steps(self, stop, steps, data):
        """Stopping in the middle, for another's sake, moves no look."""
        stopping_rule = rule(stop, steps=steps)
        done = data.draw(st.integers(0, steps - 1))
        following = done + stopping_rule.due(done)
        assert following == steps or following % stopping_rule.interval == 0
        assert all(between % stopping_rule.interval for between in range(done + 1, following))
