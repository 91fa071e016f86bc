"""One explainer of texts, ours or a peer's, that bench/peers.py starts in its environment and tells what to explain.

python bench/peer_run.py NAME MODEL_FOLDER THREADS

It says {"ready": names of its ways, "version": ...}, then for every line {"way": ..., "text": ...} that it reads says
{"wall": seconds, "cpu": seconds}; {"error": why} where it cannot. Nothing but the standard library is imported before
NAME is known: each environment has another set of packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

Way = Callable[[str], object]
AT_ONCE = 32  # texts, where a peer leaves the batching to its user


def opened(folder: str) -> tuple[Any, Any]:
    """The model and its tokenizer, as any user of transformers loads them."""
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def answers(model: Any, tokenizer: Any) -> Callable[[list[str]], Any]:
    """Texts -> (texts, classes) probabilities."""
    import torch

    def probabilities(texts: list[str]) -> Any:
        parts = []
        with torch.no_grad():
            for begin in range(0, len(texts), AT_ONCE):
                encoded = tokenizer(
                    [str(text) for text in texts[begin : begin + AT_ONCE]],
                    return_tensors="pt",
                    padding=True,
                    truncation=True,
                )
                parts.append(model(**encoded).logits.softmax(-1))
        return torch.cat(parts).numpy()

    return probabilities


def our_method(folder: str) -> dict[str, Way]:
    import rationales

    model = rationales.load(folder)
    return {"marc": lambda text: rationales.explain(model, text)}


def lime(folder: str) -> dict[str, Way]:
    from lime.lime_text import LimeTextExplainer

    probabilities = answers(*opened(folder))
    explainer = LimeTextExplainer(random_state=0)

    def explain(text: str, **options: int) -> object:
        target = int(probabilities([text])[0].argmax())
        return explainer.explain_instance(
            text, probabilities, labels=(target,), num_features=len(text.split()), **options
        )

    return {
        "1,000 samples": lambda text: explain(text, num_samples=1000),
        "default, 5,000 samples": explain,
    }


def shap(folder: str) -> dict[str, Way]:
    import shap as peer
    import transformers

    model, tokenizer = opened(folder)
    classifier = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    explainer = peer.Explainer(classifier)
    return {"default for texts": lambda text: explainer([text])}


def inseq(folder: str) -> dict[str, Way]:
    import inseq as peer

    model, tokenizer = opened(folder)
    try:
        explainer = peer.load_model(model, "integrated_gradients", tokenizer=tokenizer)
    except Exception as error:
        raise TypeError(f"it explains what a model writes, and does not take a classifier ({error})") from error
    return {"integrated gradients": explainer.attribute}


def ferret(folder: str) -> dict[str, Way]:
    from ferret import Benchmark

    model, tokenizer = opened(folder)
    probabilities, explainer = answers(model, tokenizer), Benchmark(model, tokenizer)
    return {
        "all of its explainers": lambda text: explainer.explain(text, target=int(probabilities([text])[0].argmax()))
    }


def interpreto(folder: str) -> dict[str, Way]:
    import interpreto as peer

    model, tokenizer = opened(folder)
    return {  # each with its default number of samples
        "integrated gradients, default, 10 points": peer.IntegratedGradients(model, tokenizer, batch_size=AT_ONCE),
        "lime, default, 100 samples": peer.Lime(model, tokenizer, batch_size=AT_ONCE),
        "kernel shap, default, 100 samples": peer.KernelShap(model, tokenizer, batch_size=AT_ONCE),
    }


PEERS = {
    "rationales": our_method,
    "lime": lime,
    "shap": shap,
    "inseq": inseq,
    "ferret-xai": ferret,
    "interpreto": interpreto,
}


def main() -> None:
    name, folder, threads = sys.argv[1:4]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints goes to stderr

    def send(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    warnings.simplefilter("ignore")
    try:
        ways = PEERS[name](folder)
        import torch

        torch.set_num_threads(int(threads))
        send(ready=list(ways), version=importlib.metadata.version(name))
        for line in sys.stdin:
            request = json.loads(line)
            wall, cpu = time.perf_counter(), time.process_time()
            ways[request["way"]](request["text"])
            send(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)
    except Exception as error:  # noqa: BLE001  # a peer may fail in any way; the table says how
        send(error=" ".join(f"{type(error).__name__}: {error}".split())[:300])


if __name__ == "__main__":
    main()
