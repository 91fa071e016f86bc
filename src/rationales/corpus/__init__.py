"""Large jobs: explain a corpus into Parquet shards that survive any interruption, and read them again.

from rationales import corpus

summary = corpus.run("reviews.csv", "results", methods=["occlusion"])
results = corpus.open_results("results")
"""

from rationales.corpus.job import run
from rationales.corpus.manifest import ShardEntry
from rationales.corpus.progress import Progress, RunSummary
from rationales.corpus.results import CorpusResults, open_results

__all__ = ["CorpusResults", "Progress", "RunSummary", "ShardEntry", "open_results", "run"]
