"""A copy that runs the end of a classifier for the first token alone says what the classifier says."""

from __future__ import annotations

import copy

import pytest
import torch
from families import FAMILIES, tiny

from rationales.models.first import KNOWN, first_alone

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 9, 9, 7, 3]])


@pytest.mark.parametrize("family", FAMILIES)
def test_it_says_the_same_with_less_work(family):
    module, _ = tiny(family)
    changed = copy.deepcopy(module).double()
    module = module.double()
    known = first_alone(changed)
    assert known == (type(module).__name__ in KNOWN)
    assert first_alone(changed) == known  # once is enough
    if not known:
        return
    found = [one(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits for one in (module, changed)]
    assert torch.allclose(*found, atol=1e-9)
    slopes = [torch.autograd.grad(logits[:, 0].sum(), one.get_input_embeddings().weight)[0]
              for logits, one in zip(found, (module, changed), strict=True)]  # fmt: skip
    assert torch.allclose(*slopes, atol=1e-9)
    widths: list[int] = []
    for part in changed.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_hook(lambda _, given, __: widths.append(given[0].shape[1]))
    changed(input_ids=IDS, attention_mask=torch.ones_like(IDS))
    assert widths.count(1) >= 2  # the two products of the last inner net


def test_the_known_are_among_the_families():
    found = {type(tiny(family)[0]).__name__ for family in FAMILIES}
    assert len(found & set(KNOWN)) >= 4


def test_a_class_of_the_same_name_is_left_alone():
    class BertForSequenceClassification(torch.nn.Module):
        pass

    assert not first_alone(BertForSequenceClassification())
