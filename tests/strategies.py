"""Texts as no one would write them, for property tests."""

from __future__ import annotations

import unicodedata

from hypothesis import strategies as st

INGREDIENTS = [
    *["wasn't", "bread", "3.14", "a", "I", "The", "café", "naïve", "well-known", "under_score", "https://a.b/c?d=e"],
    *["👩‍👩‍👧", "👍🏽", "🇩🇪", "🙂", "❤️", "1️⃣"],
    *["مرحبا", "שלום", "\u200fנ", "日本語", "汉字", "한국어", "ไทย", "हिन्दी"],
    *["e\u0301", "\u0301", "a\u0327\u0308", "ﷺ", "ﬁ", "½", "²", "Ａ", "ß", "İ", "ǅ"],
    *[".", "...", "!?", ",", "'", '"', "“", "”", "(", ")", "-", "—", "$", "#", "##", "▁", "Ġ", "@@", "</w>"],
    *[" ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u2028", "\u3000"],
    *["\x00", "\x07", "\x7f", "\x85", "\u200b", "\u200d", "\ufeff", "\ufffd", "\U000e0041", "\ue000", "\U0010ffff"],
    *["[CLS]", "[UNK]", "<s>", "</s>", "<mask>"],
]

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.lists(st.sampled_from(INGREDIENTS), min_size=1, max_size=25).map("".join),
)
"""Any text without lone surrogates: arbitrary characters, or odd ingredients thrown together."""


def invisible(mark: str) -> bool:
    """White space and controls: what may stand between units."""
    return mark.isspace() or unicodedata.category(mark) in ("Cc", "Zs", "Zl", "Zp")
