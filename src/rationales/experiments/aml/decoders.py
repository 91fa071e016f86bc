"""The scenarios of Table 2: language models that classify four data sets, by worked examples in the prompt or tuned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rationales.experiments.aml.maskers import MaskerPlan
from rationales.experiments.aml.row_specs import ATTENTION, MethodRow
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
    """A language model and a data set; where an adapter tuned on the data set is stored, the tuned model."""

    corpus: Corpus
    decoder: str

    @property
    def adapter(self) -> str:
        """Name of the adapter in the catalogue."""
        return f"{self.decoder}-{self.corpus.key}"

    @property
    def is_tuned(self) -> bool:
        """Whether the model is tuned on the data set, as in the paper's EMR setting."""
        return self.adapter in LANGUAGE_MODELS and LANGUAGE_MODELS[self.adapter].where() is not None

    @property
    def model_name(self) -> str:
        """Name of the scenario's files and columns."""
        return self.adapter

    @property
    def title(self) -> str:
        """'emotion, SmolLM2-135M-Instruct, tuned'."""
        name = DECODERS.get(self.decoder, self.decoder)
        examples = len(PROMPTS[self.corpus.key].template.examples)
        return f"{self.corpus.title}, {name}, {'tuned' if self.is_tuned else f'{examples} worked examples'}"

    def load(self, request: Request) -> Model:
        """The tuned model with the prompt that it was tuned with, or the model with worked examples."""
        if self.is_tuned and request.model is None:
            return load(self.adapter, device=request.device)
        prompt = PROMPTS[self.corpus.key]
        return load(
            request.model or self.decoder, device=request.device, labels=prompt.labels, template=prompt.template
        )

    def reads(self, spec: MethodRow) -> bool:
        """Whether the method of a row can read a decoder: not those that look inside an encoder."""
        return spec.group != ATTENTION and "attention" not in METHODS[spec.method].needs


def decoder_plan(plan: MaskerPlan) -> MaskerPlan:
    """The plan with an encoder as the backbone of attribution networks: MiniLM where it is installed."""
    folder = encoder_folder()
    return replace(plan, backbone=SMALL if folder is None else str(folder))
