"""Any method as an explain function of Quantus: `explain_func=rationales.integrations.quantus.explain`.

    quantus.FaithfulnessCorrelation(...)(model=model, x_batch=x, y_batch=y, a_batch=None,
                                         explain_func=explain, explain_func_kwargs={"method": "marc"})

Quantus is not imported: its contract is explain_func(model, inputs, targets, **kwargs) -> array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.integrations.tensor_batch import tensor_batch
from rationales.integrations.tensor_scores import method_scores
from rationales.models.batch.execution import frozen


def explain(
    model: nn.Module,
    inputs: np.ndarray | Tensor,
    targets: np.ndarray | Tensor | int | None = None,
    *,
    method: str = "marc",
    options: Mapping[str, Any] | None = None,
    baselines: np.ndarray | Tensor | float = 0.0,
    output: str = "logits",
    layout: str = "auto",
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    **_ignored: Any,
) -> np.ndarray:
    """Scores of the shape of the inputs (inputs, ...), by a method of `rationales methods` and its `options`.

    `output`, `layout` and `baselines` are those of `rationales.integrations.captum.MaRC`. Other keyword arguments,
    which Quantus passes to all explain functions alike, are ignored.
    """
    weight = next(model.parameters(), None)
    where = torch.device(device) if device is not None else torch.device("cpu") if weight is None else weight.device
    dtype = torch.float32 if weight is None else weight.dtype
    values = torch.as_tensor(inputs).to(where, dtype)
    classes = None if targets is None else [int(label) for label in np.broadcast_to(np.asarray(targets), len(values))]
    baseline = baselines if isinstance(baselines, (int, float)) else torch.as_tensor(baselines)
    with torch.inference_mode(False), frozen(model):
        batch, target = tensor_batch(
            model,
            (values,),
            (baseline,),
            classes,
            layout=layout,
            output=output,
            rows_at_once=batch_size,
            seed=seed,
        )
        (scores,) = method_scores(batch, target, method, options or {})
    return scores.cpu().numpy()
