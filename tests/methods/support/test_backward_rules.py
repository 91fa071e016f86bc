"""Other ways back than the gradient: they hold for modules and functions, change no value and leave nothing behind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from rationales.methods.support.backward_rules import guided, rescaled


def net(activation):
    """One hidden layer, max pooling, another; `activation` is a module or a function."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first, second, last = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3), nn.Linear(4, 3)
    for layer in (first, second, last):
        layer.double().requires_grad_(False)

    def run(x):
        x = functional.max_pool2d(activation(first(x)), 2)
        return last(activation(second(x)).mean((2, 3)))

    return run


def rows(count, seed):
    return torch.randn(count, 2, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


ACTIVATIONS = {
    "relu": functional.relu,
    "relu in place": lambda x: functional.relu(x, inplace=True),
    "Tensor.relu_": lambda x: x.relu_(),
    "relu6": functional.relu6,
    "ReLU6 in place": nn.ReLU6(inplace=True),
    "gelu": functional.gelu,
    "silu": nn.SiLU(),
    "tanh": torch.tanh,
    "sigmoid": lambda x: x.sigmoid(),
    "hardswish": functional.hardswish,
}


class TestRescaled:
    @pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
    def test_contributions_add_up_and_values_stay(self, activation):
        """Shrikumar et al. 2017, Eq. 1: multipliers times differences add up to the difference of the output."""
        run, x, base = net(activation), rows(3, 0).requires_grad_(), rows(3, 1)
        with rescaled(3):
            both = run(torch.cat([x, base]))
        assert torch.equal(both.detach(), run(torch.cat([x, base])).detach())
        (multiplier,) = torch.autograd.grad(both[:3, 1].sum(), x)
        total = (multiplier * (x - base)).detach().flatten(1).sum(1)
        assert torch.allclose(total, (both[:3, 1] - both[3:, 1]).detach(), atol=1e-12)

    def test_by_hand(self):
        """y = relu(3 x - 1): from x = 0 to x = 1 it rises by 2; the gradient would say 3."""
        x = torch.tensor([[1.0]], requires_grad=True)
        with rescaled(1):
            y = functional.relu(3 * torch.cat([x, torch.zeros(1, 1)]) - 1)
        assert float(torch.autograd.grad(y[0].sum(), x)[0]) == pytest.approx(2)

    def test_log_sum_exp_by_hand(self):
        """From (0, 0) to (log 2, 0) the sum of exponentials rises from 2 to 3.

        The secant of exp is (2 - 1) / log 2 for the first and, as nothing changes, the gradient 1 for the second; that
        of log is log(3 / 2) / (3 - 2). An entry of -inf, a class that is left out, has no share.
        """
        x = torch.tensor([[math.log(2), 0, -torch.inf]], dtype=torch.float64, requires_grad=True)
        with rescaled(1):
            y = torch.cat([x, torch.tensor([[0, 0, -torch.inf]], dtype=torch.float64)]).logsumexp(-1)
        assert y.tolist() == pytest.approx([math.log(3), math.log(2)])
        multipliers = torch.autograd.grad(y[0], x)[0][0].tolist()
        assert multipliers == pytest.approx([math.log(1.5) / math.log(2), math.log(1.5), 0])

    @pytest.mark.parametrize("shift", [0.0, 500.0, -500.0])
    @pytest.mark.parametrize("step", [0.0, 1e-12, 1e-6, 1.0, 30.0])
    def test_log_sum_exp_adds_up_for_small_and_large_logits(self, shift, step):
        x = (torch.tensor([[0.3, -1.2, 2.0]], dtype=torch.float64) + shift).requires_grad_()
        base = x.detach() - step * torch.tensor([1.0, -0.5, 0.25])
        with rescaled(1):
            y = torch.logsumexp(torch.cat([x, base]), dim=1, keepdim=True)
        assert torch.equal(y.detach(), torch.cat([x, base]).logsumexp(1, keepdim=True))
        (multiplier,) = torch.autograd.grad(y[0], x)
        assert float((multiplier * (x - base)).detach().sum()) == pytest.approx(
            float((y[0] - y[1]).detach()), abs=1e-12
        )
        if step <= 1e-6:
            assert torch.allclose(multiplier, x.softmax(-1), atol=1e-5)

    def test_where_nothing_changed_the_gradient_is_taken(self):
        x = torch.tensor([[1.0]], requires_grad=True)
        with rescaled(1):
            y = functional.gelu(torch.cat([x, x.detach()]))
        (plain,) = torch.autograd.grad(functional.gelu(x).sum(), x)
        assert torch.allclose(torch.autograd.grad(y[0].sum(), x)[0], plain)

    def test_where_time_comes_before_the_rows(self):
        x, base = torch.tensor([[[2.0], [3.0]]] * 5, requires_grad=True), -torch.ones(5, 2, 1)
        with rescaled(2):
            y = functional.relu(torch.cat([x, base], 1))
        assert torch.allclose(torch.autograd.grad(y[:, :2].sum(), x)[0][0, :, 0], torch.tensor([2 / 3, 3 / 4]))

    def test_where_some_rows_are_run_at_a_time(self):
        """As a batch of sounds of different length is: two of three rows first, inputs before baselines, then one."""
        x, base = torch.tensor([[2.0], [3.0], [4.0]], requires_grad=True), -torch.ones(3, 1)
        with rescaled(3):
            parts = [
                functional.relu(torch.cat([x[selected], base[selected]])) for selected in (slice(0, 2), slice(2, 3))
            ]
        (multiplier,) = torch.autograd.grad(parts[0][:2].sum() + parts[1][:1].sum(), x)
        assert torch.allclose(multiplier[:, 0], torch.tensor([2 / 3, 3 / 4, 4 / 5]))

    def test_activations_written_out_in_products_are_one_activation(self):
        """GPT-2's GELU is made of powers, products and a tanh."""
        from transformers.activations import NewGELUActivation

        module = NewGELUActivation()
        x = torch.tensor([[0.7], [-1.1]], dtype=torch.float64, requires_grad=True)
        base = torch.tensor([[-0.4], [2.0]], dtype=torch.float64)
        with rescaled(2, module):
            y = module(torch.cat([x, base]))
        assert not module._forward_hooks
        (multiplier,) = torch.autograd.grad(y[:2].sum(), x)
        assert torch.allclose((multiplier * (x - base)).detach(), (y[:2] - y[2:]).detach(), atol=1e-12)

    def test_nothing_is_left_behind_after_an_exception(self):
        from transformers.activations import NewGELUActivation

        module = NewGELUActivation()
        with pytest.raises(KeyboardInterrupt), rescaled(1, module):
            raise KeyboardInterrupt
        assert not module._forward_hooks
        x = torch.ones(2, 1, requires_grad=True)
        assert torch.equal(torch.autograd.grad(functional.relu(x).sum(), x)[0], torch.ones(2, 1))


class TestGuided:
    @pytest.mark.parametrize("name", ["relu", "relu in place", "Tensor.relu_", "relu6", "ReLU6 in place"])
    def test_is_the_formula_by_hand(self, name):
        """f = w . relu(V x): what flows back through a ReLU is w where it is positive and the ReLU is open."""
        v = torch.tensor([[1.0, 2.0], [0.5, 1.0], [-1.0, -1.0]])
        w = torch.tensor([2.0, -3.0, 5.0])
        x = torch.tensor([1.0, 1.0], requires_grad=True)
        met = []
        with guided(met):
            value = w @ ACTIVATIONS[name](v @ x)
        assert float(value.detach()) == 2 * 3 - 3 * 1.5
        assert torch.equal(torch.autograd.grad(value, x)[0], 2.0 * v[0])
        assert len(met) == 1

    def test_other_activations_are_left_alone(self):
        x = torch.tensor([0.5], requires_grad=True)
        met = []
        with guided(met):
            value = -functional.gelu(x) - functional.hardtanh(x)
        (output,) = torch.autograd.grad(value.sum(), x)
        (plain,) = torch.autograd.grad((-functional.gelu(x) - functional.hardtanh(x)).sum(), x)
        assert torch.equal(output, plain)
        assert not met
