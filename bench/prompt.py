"""What a step of MaRC costs on a language model behind a long prompt, and what memory it takes.

python bench/prompt.py --steps 6 --prefixes 0,75,150,300
python bench/prompt.py --device cuda --words 200 --steps 20

Compared is one step (both keeps of one text, forward and backward) behind a few-shot prefix with bare forward and
backward passes of the language model over as many rows of the text's tokens alone, without prompt or cache. Processor
time is reported beside elapsed time on a CPU: it does not depend on what else the machine does. `stored` is what the
backward pass of a step needs, without the keys and values of the prefix.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import rationales
from rationales.models.batch.execution import stored_bytes
from rationales.models.prompt.model import PromptModel
from rationales.models.prompt.template import PromptTemplate

SENTENCE = "We waited an hour for a table, and the soup was cold, but the waiter was kind and the cake was good. "
EXAMPLE = "The room smelled of smoke and nobody answered the phone."


def model_with_prefix(source: rationales.Model, tokens: int) -> PromptModel:
    """The same language model behind a prefix of at least so many tokens, made of worked examples."""
    count = 0
    while True:
        template = PromptTemplate("Review: {text}\nSentiment:", examples=((EXAMPLE, "negative"),) * count)
        model = rationales.load(
            source.language_model, source.tokenizer, labels=source.labels, template=template, baseline="mean"
        )
        if model.prefix_length >= tokens:
            return model
        count += 1


def timed(compute: Callable[[], object], repeat: int, device: str) -> tuple[float, float]:
    """Median seconds and processor seconds of a call, after one that is not counted."""
    compute()
    elapsed, processor = [], []
    for _ in range(repeat):
        started, cpu = time.perf_counter(), time.process_time()
        compute()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        elapsed.append(time.perf_counter() - started)
        processor.append(time.process_time() - cpu)
    return statistics.median(elapsed), statistics.median(processor)


def step(model: PromptModel, text: str) -> tuple[Callable[[], object], int, int]:
    """A step of two keeps, forward and backward; the text's tokens; and bytes stored for the backward pass."""
    encoded = model.encode([model.read(text, None)])
    batch = model.batch(encoded)
    tokens = sum(owner >= 0 for owner in encoded[0].rows[0].owner)
    keep = torch.stack([batch.ones() * 0.7, batch.ones() * 0.3]).requires_grad_()

    def compute() -> object:
        logits = batch.logits(keep)
        return torch.autograd.grad(logits[..., 0].sum() - logits[..., 1].sum(), keep)

    prefix = model.networks[0].module.prepare().prefix
    shared = sum(value.untyped_storage().nbytes() for value in (*prefix.keys, *prefix.values))
    return compute, tokens, stored_bytes(batch.modules, lambda: batch.logits(keep)) - shared


def bare(model: PromptModel, tokens: int) -> Callable[[], object]:
    """Two rows of so many tokens through the language model's layers, forward and backward."""
    module = model.language_model
    ids = torch.arange(100, 100 + tokens, device=module.device).repeat(2, 1)
    words = module.get_input_embeddings()(ids).detach()

    def compute() -> object:
        leaf = words.clone().requires_grad_()
        hidden = module.base_model(inputs_embeds=leaf, use_cache=False).last_hidden_state[:, -1]
        return torch.autograd.grad(module.get_output_embeddings()(hidden).sum(), leaf)

    return compute


def main() -> None:
    """Print one line for each prefix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--prefixes", default="0,75,150,300")
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    labels, template = ["positive", "negative"], "Review: {text}\nSentiment:"
    source = rationales.load(options.model, labels=labels, template=template, device=options.device, baseline="mean")
    text = " ".join((SENTENCE * (options.words // 20 + 1)).split()[: options.words])
    print(f"{options.model} on {options.device}, {options.words} words, {torch.get_num_threads()} threads")
    print("prefix  text  step s  cpu s  bare s  cpu s  ratio  cpu ratio  stored MB")
    with source.frozen():
        for tokens in map(int, options.prefixes.split(",")):
            model = model_with_prefix(source, tokens)
            compute, text_tokens, stored = step(model, text)
            step_seconds, step_cpu = timed(compute, options.steps, options.device)
            plain, plain_cpu = timed(bare(model, text_tokens), options.steps, options.device)
            print(
                f"{model.prefix_length:6}  {text_tokens:4}  {step_seconds:6.2f}  {step_cpu:5.2f}  "
                f"{plain:6.2f}  {plain_cpu:5.2f}  {step_seconds / plain:5.2f}  "
                f"{step_cpu / plain_cpu:9.2f}  {stored / 2**20:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
