"""How long Input Marginalization takes beside a plain loop over words and candidates, and how many rows each reads.

python bench/input_marginalization.py --data sst2.tar.gz                       # 500 sentences, the embedded model
python bench/input_marginalization.py --data sst2.tar.gz --device cuda --model minilm-reviews --filler NAME

The loop reads one masked text and one changed text at a time, as published code does. It is measured on a few evenly
spaced sentences and scaled by the number of words; its scores are compared with the method's. Without a filler, a model
with random weights of MiniLM's size fills words in: it proposes other words, but takes as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from subjects import SIZES, text_model, untyped, words
from timing import arguments, headline, ready, run, save, seconds, setting, table
from torch import Tensor, nn

from rationales.data.reading import read_data, spread_positions
from rationales.errors import OptionError
from rationales.methods import build
from rationales.methods.support.odds import on_scale
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import load_filler
from rationales.models.text.filling.whole_words import boundary
from rationales.models.text.model import TextModel
from rationales.models.text.text_sources import preceding
from rationales.models.text.tokens import EncodedText, TextInput

COLUMNS = ("", "sentences", "seconds", "per sentence", "classifier rows", "filler rows", "forward passes")
QUICK_SENTENCES = 4


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="SST-2, a folder or an archive; without it, sentences of our own")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--loop", type=int, default=5, help="sentences on which the loop is measured")
    parser.add_argument("--model", default="embedded", help=f"a name, an id, a folder, or random: {', '.join(SIZES)}")
    parser.add_argument("--filler", help="a name, an id or a folder; without it, random weights of MiniLM's size")
    parser.add_argument("--candidates", type=int, default=10)
    args = parser.parse_args()
    device = ready(args)
    model = text_model("bert-tiny" if args.quick else args.model, device)
    if model is None:
        raise OptionError(f"{args.model} is not installed here")
    count = QUICK_SENTENCES if args.quick else args.sentences
    texts = [words(12 + number % 16, number) for number in range(count)]
    if args.data is not None:
        texts = [str(example.text) for example in read_data("sst-2", "dev", folder=args.data, limit=count)]
    filler = load_filler(args.filler, device) if args.filler else random_filler(model, args.quick, device)
    if filler is None:
        raise OptionError("give a filler, or none for random weights")
    encoded = model.encode([TextInput(text) for text in texts])
    method = build("input-marginalization", {"filler": filler, "candidates": args.candidates})
    target = torch.zeros(len(texts), dtype=torch.long, device=device)
    scores: list[Tensor] = []

    def batched() -> None:
        with model.frozen():
            batch = model.batch(encoded)
            scores[:] = batch.gather(method.scores(batch, target).scores)

    batched()  # warm-up
    with counted(model, filler) as reads:
        batched_seconds = min(seconds(batched, device, args.clock) for _ in range(args.repeat))
    batched_reads = {name: value // args.repeat for name, value in reads.items()}
    chosen = spread_positions(len(encoded), args.loop)
    measured = [encoded[number] for number in chosen]
    looped: list[Tensor] = []

    def loop() -> None:
        with model.frozen(), torch.no_grad():
            looped[:] = [plain_scores(model, filler, text, args.candidates) for text in measured]

    plain_scores(model, filler, measured[0], args.candidates)
    with counted(model, filler) as reads:
        loop_seconds = seconds(loop, device, args.clock)
    all_words, measured_words = (sum(len(text.units) for text in sentences) for sentences in (encoded, measured))
    scaled = loop_seconds * all_words / measured_words
    difference = max(float((scores[number] - plain).abs().max()) for number, plain in zip(chosen, looped, strict=True))
    rows = [
        ("batched", len(texts), batched_seconds, batched_reads),
        (f"loop, {len(measured)} sentences", len(measured), loop_seconds, reads),
        ("loop, scaled by words", len(texts), scaled, {key: reads[key] * all_words // measured_words for key in reads}),
    ]
    print(headline(device))
    print(
        f"{model.name}, filler {filler.name}, {len(texts)} sentences, {all_words} words, {args.candidates} candidates"
    )
    cells = [
        (name, str(size), f"{spent:.2f}", f"{1e3 * spent / size:.1f} ms", *(str(value) for value in counts.values()))
        for name, size, spent, counts in rows
    ]
    print(table(COLUMNS, cells))
    print(f"{scaled / batched_seconds:.1f} times faster; scores differ by at most {difference:.1e}")
    results = [{"name": name, "sentences": size, "seconds": spent} | counts for name, size, spent, counts in rows]
    save(args.out, {"setting": setting(device, args.clock), "rows": results, "times_faster": scaled / batched_seconds,
                    "largest_difference": difference, "words": all_words})  # fmt: skip


def random_filler(model: TextModel, quick: bool, device: torch.device) -> Filler:
    """A fill-mask model with random weights that reads with the classifier's tokenizer."""
    layers, hidden, heads, inner = SIZES["bert-tiny" if quick else "bert-mini"]
    library, tokenizer = untyped(), model.tokenizer
    config = library.BertConfig(
        vocab_size=len(tokenizer), num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
        intermediate_size=inner, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = library.BertForMaskedLM(config).eval()
    return Filler(module.to(device), tokenizer, "random weights")


@contextmanager
def counted(model: TextModel, filler: Filler) -> Iterator[dict[str, int]]:
    """Context that counts the rows that classifier and filler read, and the forward passes of both."""
    reads = {"classifier": 0, "filler": 0, "passes": 0}

    def count(name: str) -> Any:
        def hook(_module: nn.Module, _positional: Any, keyword: Any) -> None:
            reads[name] += len(keyword["input_ids"])
            reads["passes"] += 1

        return hook

    modules = {"classifier": model.networks[0].module, "filler": filler.module}
    handles = [module.register_forward_pre_hook(count(name), with_kwargs=True) for name, module in modules.items()]
    try:
        yield reads
    finally:
        for handle in handles:
            handle.remove()


def plain_scores(model: TextModel, filler: Filler, encoded: EncodedText, candidates: int) -> Tensor:
    """(words,): Input Marginalization of a text of one segment, a word and a candidate at a time (Eq. 3, 4)."""
    text, device = encoded.source.text, filler.device

    def probability(changed: str) -> Tensor:
        encoding = model.tokenizer(changed, return_tensors="pt").to(device)
        arguments = {name: encoding[name] for name in ("input_ids", "attention_mask")}
        output = model.networks[0].module(**arguments)
        return getattr(output, "logits", output).softmax(-1)[0, 0]

    full, scores = probability(text), list[Tensor]()
    for unit in encoded.units:
        before, after = text[: unit.start], text[unit.end :]
        encoding = filler.tokenizer(before + filler.tokenizer.mask_token + after, return_tensors="pt").to(device)
        arguments = {name: encoding[name] for name in ("input_ids", "attention_mask")}
        position = (encoding["input_ids"][0] == filler.tokenizer.mask_token_id).nonzero()[0, 0]
        logits = filler.module(**arguments).logits[0, position]
        allowed = filler.vocabulary.to(device, len(logits))[boundary(preceding(encoded, unit))]
        likelihoods, tokens = torch.where(allowed, logits.softmax(-1), 0.0).topk(candidates)
        original_ids = filler.tokenizer(unit.text, add_special_tokens=False)["input_ids"]
        expected = torch.zeros((), device=device)
        for likelihood, token in zip(likelihoods / likelihoods.sum(), tokens.tolist(), strict=True):
            word = unit.text if original_ids == [token] else filler.vocabulary.words[token]
            expected = expected + likelihood * probability(apart(before, word, after))
        scores.append(on_scale(full, "log2-odds") - on_scale(expected, "log2-odds"))
    return torch.stack(scores)


def apart(before: str, word: str, after: str) -> str:
    """The text with another word, separated by spaces from letters and digits beside it."""
    edges = (before[-1:], word[:1]), (word[-1:], after[:1])
    first, second = (" " if previous.isalnum() and following.isalnum() else "" for previous, following in edges)
    return before + first + word + second + after


if __name__ == "__main__":
    run(main)
