"""A filler's candidates for each word as a section of a page."""

from __future__ import annotations

from rationales.pipeline.word_candidates import Candidate, CandidateList
from rationales.report.html.marked_text import display_text, escape
from rationales.report.wording import candidate_figures, candidates_sentence


def candidates_section(candidates: CandidateList) -> str:
    """A table with a row for each word; words of the text and of the filler are escaped."""
    rows = "".join(
        f'<tr><th scope="row">{display_text(word.unit.text.strip())}</th><td>'
        + (", ".join(map(_candidate, word.candidates)) or "cannot be masked")
        + "</td></tr>"
        for word in candidates.words
    )
    return (
        '<section class="candidates"><h2>Candidates for each word</h2>'
        f"<p>{display_text(candidates_sentence(candidates))}</p>"
        f"<table><tbody>{rows}</tbody></table></section>"
    )


def _candidate(candidate: Candidate) -> str:
    tag = "strong" if candidate.is_original else "span"
    return f"<{tag}>{display_text(candidate.word)}</{tag}> {escape(candidate_figures(candidate))}"
