"""A classifier small enough to retrain in a test: the mean of word embeddings and a linear layer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from methods.fillers import word_tokenizer
from torch import nn

from rationales.data.example import Example

NEUTRAL = ("the", "old", "boat", "was", "at", "cold", "bridge", "and", "soup", "day", "room", "door", "hill", "very")
SETTINGS = {"start": "scratch", "epochs": 12, "learning_rate": 0.1, "batch_size": 16, "seeds": 3}


class BagOfWords(nn.Module):
    """Logits of a linear layer on the mean embedding; "good" speaks for positive, "bad" for negative."""

    def __init__(self, tokenizer, outputs=2):
        super().__init__()
        self.embeddings = nn.Embedding(len(tokenizer), 6)
        self.classifier = nn.Linear(6, outputs)
        self.config = SimpleNamespace(
            id2label={0: "negative", 1: "positive"} if outputs == 2 else {0: "positive"},
            num_labels=outputs,
            problem_type=None,
            pad_token_id=tokenizer.pad_token_id,
        )
        with torch.no_grad():
            self.embeddings.weight.zero_()
            self.classifier.weight.zero_()
            self.classifier.bias.zero_()
            self.classifier.weight[:, 0] = torch.tensor([-40.0, 40.0])[-outputs:]
            self.embeddings.weight[tokenizer.convert_tokens_to_ids("good"), 0] = 1.0
            self.embeddings.weight[tokenizer.convert_tokens_to_ids("bad"), 0] = -1.0

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, input_ids, attention_mask):
        words = self.embeddings(input_ids) * attention_mask[..., None]
        return self.classifier(words.sum(1) / attention_mask.sum(1, keepdim=True))


def bag_of_words(outputs=2):
    """The module and its tokenizer."""
    tokenizer = word_tokenizer()
    return BagOfWords(tokenizer, outputs), tokenizer


def examples(count, seed=0, words=9):
    """Texts of neutral words with "good" or "bad" in a random place."""
    random = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        chosen = random.choice(NEUTRAL, words).tolist()
        chosen[random.integers(words)] = ("bad", "good")[number % 2]
        texts.append(Example(f"{seed}-{number}", " ".join(chosen), ("negative", "positive")[number % 2]))
    return texts
