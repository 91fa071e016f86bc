"""The scenarios of Table 2: language models that classify four data sets, by worked examples in the prompt or tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rationales.experiments.aml.maskers import MaskerPlan
from rationales.experiments.aml.row_specs import ATTENTION, MARC_INSTANT, MethodRow
from rationales.experiments.aml.scenarios import Corpus
from rationales.experiments.registry import Request
from rationales.masks.instant.aml.backbone import SMALL
from rationales.methods import METHODS
from rationales.models.catalogue import LANGUAGE_MODELS
from rationales.models.delta import encoder_folder
from rationales.models.load import load
from rationales.models.model import Model
from rationales.models.prompt.template import PromptTemplate

DECODERS = {"smollm2": "SmolLM2-135M-Instruct"}  # name in the catalogue -> title
FEW_SHOT, TUNED = SETTINGS = ("few-shot", "tuned")  # how a language model is made to classify
SENTIMENTS = ("positive", "negative")
EMOTIONS = ("sadness", "joy", "love", "anger", "fear", "surprise")
_SENTIMENT_TASK = "Decide whether a film review is positive or negative.\n\n"
_EMOTION_TASK = "Name the emotion of a message: sadness, joy, love, anger, fear or surprise.\n\n"
_REVIEWS = (
    ("A patient, tender film that earns every one of its tears.", "positive"),
    ("Two hours of shouting, and not a single idea.", "negative"),
    ("The jokes were old when my grandmother told them.", "negative"),
    ("I left the cinema humming, and happier than I had come.", "positive"),
)
_MESSAGES = (
    ("i feel empty since they moved away", "sadness"),
    ("i feel so lucky to wake up here every day", "joy"),
    ("i feel tender whenever she falls asleep on my arm", "love"),
    ("i feel like shouting at everyone in this office", "anger"),
    ("i feel shaky before every exam", "fear"),
    ("i feel amazed at how quickly it all went", "surprise"),
)


@dataclass(frozen=True)
class FewShotPrompt:
    """The prompt of a data set: the task, the labels, and worked examples of our own."""

    labels: tuple[str, ...]
    template: PromptTemplate


_SENTIMENT_PROMPT = FewShotPrompt(
    SENTIMENTS, PromptTemplate("Review: {text}\nSentiment:", examples=_REVIEWS, instruction=_SENTIMENT_TASK)
)
_EMOTION_PROMPT = FewShotPrompt(
    EMOTIONS, PromptTemplate("Message: {text}\nEmotion:", examples=_MESSAGES, instruction=_EMOTION_TASK)
)
PROMPTS = {"sst2": _SENTIMENT_PROMPT, "rt": _SENTIMENT_PROMPT, "imdb": _SENTIMENT_PROMPT, "emotion": _EMOTION_PROMPT}


@dataclass(frozen=True)
class DecoderScenario:
    """A language model and a data set: with worked examples in the prompt, or tuned on the data set."""

    corpus: Corpus
    decoder: str
    tuned: bool = False

    @property
    def adapter(self) -> str:
        """Name of the adapter in the catalogue."""
        return f"{self.decoder}-{self.corpus.key}"

    @property
    def is_stored(self) -> bool:
        """Whether the adapter of a tuned model is there."""
        return self.adapter in LANGUAGE_MODELS and LANGUAGE_MODELS[self.adapter].where() is not None

    @property
    def model_name(self) -> str:
        """Name of the scenario's files and columns."""
        return self.adapter if self.tuned else f"{self.decoder}-few-shot-{self.corpus.key}"

    @property
    def title(self) -> str:
        """'emotion, SmolLM2-135M-Instruct, tuned'."""
        name = DECODERS.get(self.decoder, self.decoder)
        examples = len(PROMPTS[self.corpus.key].template.examples)
        return f"{self.corpus.title}, {name}, {'tuned' if self.tuned else f'{examples} worked examples'}"

    def load(self, request: Request) -> Model:
        """The tuned model with the prompt that it was tuned with, or the model with worked examples."""
        if self.tuned:
            return load(self.adapter, device=request.device)
        prompt = PROMPTS[self.corpus.key]
        return load(
            request.model or self.decoder, device=request.device, labels=prompt.labels, template=prompt.template
        )

    def reads(self, spec: MethodRow) -> bool:
        """Whether the method of a row can read a decoder: not those that look inside an encoder, nor MaRC's masker."""
        return spec.group != ATTENTION and "attention" not in METHODS[spec.method].needs and spec.method != MARC_INSTANT


def decoder_scenarios(corpora: Sequence[Corpus], settings: Sequence[str], other_model: bool) -> list[DecoderScenario]:
    """Each data set with worked examples, then those that a stored model is tuned on; `settings`: `SETTINGS`, or some.

    `other_model`: another language model is explained, which has no tuned ones.
    """
    pairs = [(corpus, decoder) for corpus in corpora for decoder in DECODERS]
    tuned = [DecoderScenario(corpus, decoder, tuned=True) for corpus, decoder in pairs]
    tuned = [scenario for scenario in tuned if scenario.is_stored and not other_model]
    plain = [DecoderScenario(corpus, decoder) for corpus, decoder in pairs]
    return [*(plain if FEW_SHOT in settings else []), *(tuned if TUNED in settings else [])]


def decoder_plan(plan: MaskerPlan) -> MaskerPlan:
    """The plan with an encoder as the backbone of attribution networks: MiniLM where it is installed."""
    folder = encoder_folder()
    return replace(plan, backbone=SMALL if folder is None else str(folder))
