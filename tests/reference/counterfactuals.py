"""Tables 4 and A3 of Pham et al. (2022), one word and one text at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


def drop_when_one_is_deleted(
    classifier: Callable[[Sequence[str]], int], texts: Sequence[Sequence[str]], labels: Sequence[int]
) -> float:
    """Accuracy of the texts minus the mean over texts of the accuracy of their forms without one word."""
    full = sum(classifier(words) == label for words, label in zip(texts, labels, strict=True)) / len(texts)
    changed = 0.0
    for words, label in zip(texts, labels, strict=True):
        forms = [[*words[:index], *words[index + 1 :]] for index in range(len(words))]
        changed += sum(classifier(form) == label for form in forms) / len(forms) / len(texts)
    return full - changed


def exact_matches(
    language_model: Callable[[Sequence[str | None]], list[Mapping[str, float]]], texts: Sequence[Sequence[str]]
) -> tuple[float, float]:
    """Share of the words that are the likeliest in their place, and the mean likelihood of these."""
    matches, likelihoods, count = 0, [], 0
    for words in texts:
        for index, word in enumerate(words):
            (proposals,) = language_model([*words[:index], None, *words[index + 1 :]])
            best = max(proposals, key=lambda proposal: proposals[proposal])
            count += 1
            if best.lower() == word.lower():
                matches += 1
                likelihoods.append(proposals[best])
    return matches / count, sum(likelihoods) / len(likelihoods) if likelihoods else float("nan")
