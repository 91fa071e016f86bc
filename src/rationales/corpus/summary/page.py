"""A corpus run as a page: distributions, the most and least certain records, words that matter, and where to look.

The page loads nothing and runs no script. Ids, texts, words and labels all go through `display_text`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rationales.corpus.manifest import ERRORS, INDEX, RECORD_PAGES, REPORT, report_pages, store
from rationales.corpus.results import CorpusResults
from rationales.corpus.summary.lists import RECORD_LISTS, MethodLists
from rationales.corpus.summary.provenance import provenance_facts
from rationales.corpus.summary.statistics import (
    BINS,
    MIN_DOCUMENTS,
    SPURIOUS_LIFT,
    MethodStatistics,
    WordCounts,
    statistics_of,
)
from rationales.errors import RationalesError
from rationales.rationale import Rationale
from rationales.report.html.document import asset, footer, head, scrollable
from rationales.report.html.marked_text import display_text, escape
from rationales.report.html.page import page
from rationales.report.wording import percent

PLOTS = {
    "certainty": "Probability of the target, full input",
    "rationale": "Given the rationale alone",
    "complement": "Given everything but the rationale",
    "share": "Share of the input that is selected",
}
_COLUMNS = [
    *("position", "id", "location", "method", "target", "p_full", "p_rationale", "p_complement", "selected", "units"),
    *("text", "pair", "starts", "lengths", "text_units", "spans", "image", "notes"),
]


def write_report(results: CorpusResults, folder: Path | None = None) -> Path:
    """Write index.html and a page for each record that it links to; returns the path of index.html."""
    home = folder or results.folder / REPORT
    lists = {title: MethodLists.of(entry) for title, entry in statistics_of(results.rows(_COLUMNS)).items()}
    try:
        (home / RECORD_PAGES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RationalesError(f"cannot make the folder {home}: {error.strerror}") from None
    index = home / INDEX
    earlier_pages = {*report_pages(home)} - {index}
    positions = {position for entry in lists.values() for position in entry.positions()}
    for position, rationales in results.records(positions):
        path = home / RECORD_PAGES / f"{position}.html"
        store(path, _record_page(results, position, rationales).encode("utf-8", "replace"))
        earlier_pages.discard(path)
    store(index, corpus_page(results, lists).encode("utf-8", "replace"))
    for path in earlier_pages:
        path.unlink(missing_ok=True)
    return index


def _record_page(results: CorpusResults, position: int, rationales: list[Rationale]) -> str:
    """The page of one record, with all methods side by side and a link to the corpus."""
    back = '<a href="../index.html">All of the corpus</a>'
    if len(rationales) == 1:
        return page(rationales, ending=f'<p class="caption">{back}</p>')
    title = rationales[0].name or f"#{position}"
    lead = f'<header class="lead"><h1>{display_text(title)}</h1><p>{back}</p></header>'
    return page(rationales, titles=results.methods, lead=lead, name=title)


def corpus_page(results: CorpusResults, lists: Mapping[str, MethodLists]) -> str:
    """The summary page."""
    repeated = repeated_ids(results, {record["id"] for entry in lists.values() for record in entry.records()})
    style = "".join(map(asset, ("article.css", "page.css", "corpus.css")))
    model = results.provenance["model"]["name"]
    totals = results.manifest.totals()
    state = "" if results.manifest.complete else " · not complete"
    facts = (("records", "records"), ("explained", "explained"), ("failed", "failed"), ("skipped", "skipped"))
    items = "".join(f"<li><b>{totals[key]:,}</b>{name}</li>" for key, name in facts)
    reasons = ", ".join(f"{number:,} × {display_text(reason)}" for reason, number in results.manifest.reasons().items())
    failed = f"Not explained: {reasons}; {ERRORS} has the records and the messages."
    notes = f'<aside class="notes" aria-label="Failed records"><ul><li>{failed}</li></ul></aside>' if reasons else ""
    kicker = f"{display_text(model)} · {display_text(', '.join(results.methods))}{state}"
    return "\n".join(
        (
            head(f"Corpus: {model}", style),
            '<body class="rationales corpus">',
            "<main>",
            f'<header class="lead"><p class="kicker">{kicker}</p><h1>What decides across the corpus?</h1>',
            f'<ul class="facts">{items}</ul>{notes}</header>',
            *(_article(title, entry, repeated) for title, entry in lists.items()),
            _provenance_section(provenance_facts(results, lists)),
            "</main>",
            footer(),
            "</body>",
            "</html>",
            "",
        )
    )


def repeated_ids(results: CorpusResults, identifiers: Collection[str]) -> set[str]:
    """Those of the ids that several records have."""
    positions: dict[str, set[int]] = {identifier: set() for identifier in identifiers}
    for row in results.rows(("id", "position")):
        if row["id"] in positions:
            positions[row["id"]].add(row["position"])
    return {identifier for identifier, of_id in positions.items() if len(of_id) > 1}


def _article(title: str, lists: MethodLists, repeated: Collection[str]) -> str:
    statistics = lists.statistics
    rows = "".join(
        f'<tr><th scope="row">{display_text(label)}</th><td>{number:,}</td>'
        f"<td>{percent(number / statistics.rows)}</td></tr>"
        for label, number in statistics.targets.most_common()
    )
    kinds = "".join(
        f'<tr><th scope="row">{display_text(kind)}</th><td>{number:,}</td>'
        f"<td>{percent(number / statistics.rows)}</td></tr>"
        for kind, number in statistics.notes.most_common()
    )
    tables = [("Explained label", rows), ("Note on a rationale", kinds)]
    columns = "".join(f"<div>{_listing((name, 'records', 'share'), body)}</div>" for name, body in tables if body)
    return "\n".join(
        (
            f"<article><header><h2>{display_text(title)}</h2></header>",
            f'<div class="columns">{columns}</div>',
            f'<section><h3>Distributions</h3><div class="plots">{"".join(_plots(statistics))}</div></section>',
            _word_section(lists),
            _spurious_section(lists),
            *_record_sections(statistics, repeated),
            "</article>",
        )
    )


def _plots(statistics: MethodStatistics) -> Iterator[str]:
    for name, caption in PLOTS.items():
        counts = statistics.histograms[name]
        peak = max(counts) or 1
        bars = "".join(
            f'<rect x="{number * 5}" y="{84 - 84 * value / peak:.2f}" width="4.6" height="{84 * value / peak:.2f}">'
            f"<title>{number / BINS:.2f}–{(number + 1) / BINS:.2f}: {value:,}</title></rect>"
            for number, value in enumerate(counts)
        )
        mean = statistics.sums[name] / statistics.rows
        yield (
            f"<figure><figcaption>{escape(caption)}, mean <b>{mean:.2f}</b></figcaption>"
            f'<svg viewBox="0 0 100 84" preserveAspectRatio="none" role="img" aria-label="{escape(caption)}">'
            f"{bars}</svg>"
            '<p class="axis"><span>0</span><span>0.5</span><span>1</span></p></figure>'
        )


def _word_section(lists: MethodLists) -> str:
    columns = "".join(
        f"<div><h4>{display_text(label)}</h4>{_words(words)}</div>" for label, words in lists.words if words
    )
    if not columns:
        return ""
    dropped_words = lists.statistics.dropped_words
    dropped = f" {dropped_words:,} rare words were left out." if dropped_words else ""
    caption = (
        "Words by how often they are part of a rationale where they occur, ranked by the lower end of the 95 % "
        f"interval of that rate, where it is above the rate of all words; "
        f"words in fewer than {MIN_DOCUMENTS} records are left out.{dropped}"
    )
    section = f'<p class="caption">{escape(caption)}</p><div class="columns">{columns}</div>'
    return f"<section><h3>Words that matter</h3>{section}</section>"


def _words(words: Sequence[tuple[str, WordCounts]]) -> str:
    body = "".join(
        f'<tr><th scope="row"><bdi>{display_text(word)}</bdi></th><td>{percent(counts.rate())}</td>'
        f"<td>{counts.occurrences:,}</td><td>{counts.documents:,}</td>"
        f'<td class="name">{_examples(counts)}</td></tr>'
        for word, counts in words
    )
    return _listing(("Word", "selected", "of", "records", "examples"), body, {4})


def _examples(counts: WordCounts) -> str:
    """Links to records in which a word is part of the rationale."""
    return " ".join(f'<a href="{_address(position)}">#{position}</a>' for position in counts.examples)


def _address(position: int) -> str:
    return f"{RECORD_PAGES}/{position}.html"


def _spurious_section(lists: MethodLists) -> str:
    caption = (
        "Function words of English, numbers, names, mark-up and single letters whose rate of being selected is, at the "
        f"lower end of its 95 % interval, more than {SPURIOUS_LIFT:g} times that of all words in records of the same "
        "label. A model that needs them may have learned something that does not belong to the task. This is a reason "
        "to look, not a proof. Function words of other languages are not known."
    )
    if not any(lists.statistics.words.values()):
        return ""
    body = "".join(
        f'<tr><th scope="row"><bdi>{display_text(word)}</bdi></th><td class="name">{escape(reason)}</td>'
        f'<td class="name">{display_text(target)}</td><td>{percent(counts.rate())}</td>'
        f'<td>{counts.documents:,}</td><td class="name">{_examples(counts)}</td></tr>'
        for target, word, counts, reason in lists.suspects
    )
    headings = ("Word", "looks like", "label", "selected", "records", "examples")
    table = _listing(headings, body, {1, 2, 5}) if body else "<p>None.</p>"
    return f'<section><h3>Words that look spurious</h3><p class="caption">{escape(caption)}</p>{table}</section>'


def _record_sections(statistics: MethodStatistics, repeated: Collection[str]) -> Iterator[str]:
    for name, heading, caption in RECORD_LISTS:
        body = "".join(_record_row(record, repeated) for record in getattr(statistics, name).listed())
        table = _listing(("Record", "Beginning", "label", "full input", "rationale alone"), body, {1, 2})
        yield f'<section><h3>{heading}</h3><p class="caption">{caption}</p>{scrollable(table, heading)}</section>'


def _record_row(record: dict[str, Any], repeated: Collection[str]) -> str:
    title = f"{record['id']} #{record['position']}" if record["id"] in repeated else record["id"]
    return (
        f'<tr><th scope="row"><a href="{_address(record["position"])}">{display_text(title)}</a></th>'
        f'<td class="words"><bdi>{display_text(record["excerpt"])}</bdi></td>'
        f'<td class="name">{display_text(record["target"])}</td>'
        f"<td>{percent(record['p_full'])}</td><td>{percent(record['p_rationale'])}</td></tr>"
    )


def _provenance_section(facts: Mapping[str, str]) -> str:
    body = "".join(
        f'<tr><th scope="row">{display_text(name)}</th><td class="words">{display_text(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<article><header><h2>Provenance</h2></header>{_listing(('', 'value'), body, {1})}</article>"


def _listing(headings: Sequence[str], body: str, names: Collection[int] = ()) -> str:
    """A table; the columns `names` hold words, all others but the first numbers."""
    header = "".join(
        f'<th scope="col"{" class=name" if number in names else ""}>{escape(heading)}</th>'
        for number, heading in enumerate(headings)
    )
    return f'<table class="listing"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'
