"""A filler's candidates for each word as a section of a page."""

from __future__ import annotations

from rationales.pipeline.word_candidates import Candidate, CandidateList, WordCandidates
from rationales.report.html.document import scrollable
from rationales.report.html.marked_text import display_text, escape
from rationales.report.wording import candidate_figures, candidates_sentence, prediction_text


def candidates_section(candidates: CandidateList) -> str:
    """A table with a row for each word: the prediction without it, then its candidates; words are escaped."""
    columns = max((len(word.candidates) for word in candidates.words), default=0)
    rows = "".join(
        f'<tr><th scope="row">{display_text(word.unit.text.strip())}</th>{_without(word, candidates)}'
        + ("".join(map(_candidate, word.candidates)) or f'<td colspan="{columns or 1}">cannot be masked</td>')
        + "</tr>"
        for word in candidates.words
    )
    head = f'<tr><td></td><th scope="col">without it</th><th scope="col" colspan="{columns or 1}">candidates</th></tr>'
    title = "Candidates for each word"
    return (
        f'<section class="candidates"><h2>{title}</h2>'
        f"<p>{display_text(candidates_sentence(candidates))}</p>"
        f"{scrollable(f'<table><thead>{head}</thead><tbody>{rows}</tbody></table>', title)}</section>"
    )


def _without(word: WordCandidates, candidates: CandidateList) -> str:
    """What is predicted without the word; in bold where the label changes."""
    tag = "span" if word.without.label == candidates.predicted.label else "strong"
    return f"<td><{tag}>{display_text(prediction_text(word.without))}</{tag}></td>"


def _candidate(candidate: Candidate) -> str:
    tag = "strong" if candidate.is_original else "span"
    return (
        f"<td><{tag}>{display_text(candidate.word)}</{tag}> <small>{escape(candidate_figures(candidate))}</small></td>"
    )
