"""Short texts about negation and contrast whose label follows from how they are built."""

from __future__ import annotations

import random

from zoo.text import NEUTRAL, Text


def listed(text: str, mark: str = ",") -> list[str]:
    """The items of a list written as running text."""
    return [item.strip() for item in text.strip().split(mark)]


GOOD = listed(
    """
    good, great, wonderful, funny, moving, charming, brilliant, excellent, engaging, clever, beautiful, gripping,
    touching, enjoyable, memorable, delightful, superb, fresh, original, convincing, smart, entertaining, lovely,
    impressive, fun, interesting, exciting, hilarious, fascinating, satisfying, strong, warm, amazing, fantastic,
    thrilling, likeable, sharp, inspired, worthwhile, heartfelt
    """
)
BAD = listed(
    """
    bad, terrible, boring, awful, dull, predictable, stupid, annoying, horrible, weak, tedious, lame, pointless,
    silly, clumsy, forgettable, bland, ugly, cheap, messy, disappointing, painful, unfunny, shallow, lifeless,
    tiresome, flat, poor, ridiculous, dreadful, confusing, sloppy, uninspired, mediocre, laughable, pathetic,
    hollow, irritating, stale, overlong
    """
)
WHOLE = ["the movie", "this film", "this movie", "the film", "it", "the whole thing", "this picture", "that show"]
PARTS = listed(
    """
    the story, the plot, the acting, the script, the ending, the dialogue, the direction, the music, the cast,
    the humor, the camera work, the lead actor, the first half, the second half, the pacing, the editing,
    the premise, the action
    """
)
GOOD_NOUNS = listed(
    "charm, wit, a masterpiece, fun, a gem, heart, style, a pleasure, imagination, energy, a triumph, a joy"
)
BAD_NOUNS = listed("a mess, a waste of time, a failure, a disaster, junk, a bore, a disappointment, rubbish, a chore")
LIKED = ["liked", "loved", "enjoyed", "was moved by", "admired"]
LIKE = ["like", "love", "enjoy", "recommend", "care for"]
BE = ["was", "is"]
VERY = ["very", "really", "so", "particularly", "all that", "especially"]

# {g}/{G} and {b}/{B} are good and bad words ({G}, {B} a second one), {w} the whole, {p}/{q} parts of it.
POSITIVE = listed(
    """
    {w} {be} {g} .
    {w} {be} {very} {g} .
    {p} {be} {g} and {q} {be} {G} .
    a {g} , {G} movie
    i {liked} {w} .
    {w} {be} not {b} .
    not {b} at all
    {w} {be}n't {b} at all .
    {w} {be} never {b} .
    never {b} , always {g} .
    not {b} , but {g} .
    {w} {be} far from {b} .
    {w} {be} anything but {b} .
    nothing {b} about {w} .
    hardly {b} .
    neither {b} nor {B} .
    {p} {be} {b} , but {w} {be} {g} .
    {p} {be} {b} but {q} more than makes up for it .
    although {p} {be} {b} , {w} {be} {g} .
    despite the {b} start , {w} {be} {g} .
    i expected {bn} but {w} {be} {g} .
    i thought {w} would be {b} . i was wrong .
    {w} {be} {g} without being {b} .
    you will not be disappointed .
    you won't regret watching {w} .
    i can't recommend {w} enough .
    i could not stop watching {w} .
    {w} {be} not only {g} but also {G} .
    {w} has {gn} .
    it never gets {b} .
    there is not a {b} moment in {w} .
    don't miss {w} .
    {w} isn't {b} , it's {g} .
    i can't remember a more {g} film .
    {w} {be} better than i feared .
    i have nothing to complain about .
    it couldn't be more {g} .
    i didn't expect {w} to be so {g} .
    """,
    mark="\n",
)
NEGATIVE = listed(
    """
    {w} {be} {b} .
    {w} {be} {very} {b} .
    {p} {be} {b} and {q} {be} {B} .
    a {b} , {B} movie
    {w} {be} {bn} .
    {w} {be} not {g} .
    not {g} at all
    {w} {be}n't {very} {g} .
    {w} {be} not {very} {g} .
    {w} {be} never {g} .
    never {g} , always {b} .
    not {g} , just {b} .
    {w} {be} far from {g} .
    {w} {be} anything but {g} .
    nothing {g} about {w} .
    hardly {g} .
    neither {g} nor {G} .
    {p} {be} {g} , but {w} {be} {b} .
    {p} {be} {g} but {q} {be} {bn} .
    although {p} {be} {g} , {w} {be} {b} .
    despite the {g} start , {w} {be} {b} .
    i expected {gn} but {w} {be} {b} .
    i thought {w} would be {g} . i was wrong .
    {w} lacks {gn} .
    {w} could have been {g} .
    {w} should have been {g} , but it {be} {b} .
    {w} tries to be {g} and fails .
    i did not {like} {w} .
    i didn't {like} {w} .
    i can't say i {liked} {w} .
    i don't think {w} {be} {g} .
    i would not recommend {w} to anyone .
    i wanted to {like} {w} , but i couldn't .
    no {g} moments , no {G} ideas .
    if only {w} were {g} .
    {w} isn't {g} , it's {b} .
    too {b} to be {g} .
    i couldn't {like} {w} .
    i wouldn't call {w} {g} .
    it couldn't be more {b} .
    i can't imagine who would {like} {w} .
    never have i seen such a {b} film .
    nobody could {like} {w} .
    {w} {be} less {g} than i hoped .
    """,
    mark="\n",
)
UNDECIDED = listed(
    """
    we saw {w} on {day} .
    {w} {be} about a {job} .
    {w} was shot in {place} .
    the main character is a {job} from {place} .
    it came out on {day} .
    {w} runs for two hours .
    i watched {w} with my brother .
    a {job} travels to {place} .
    the {job} meets a {job} in {place} .
    {w} is set in {place} .
    the story takes place in {place} .
    and then the {job}
    the movie
    this film
    in {place} ,
    {p} and {q}
    of the
    """,
    mark="\n",
)
DAYS = listed("monday, tuesday, friday, a sunday evening, television, dvd")
JOBS = listed("teacher, soldier, lawyer, farmer, doctor, singer, detective, student, writer, nurse, driver, painter")
PLACES = listed("new york, france, a small town, london, the desert, japan, the mountains, chicago, mexico, the city")


def fill(template: str, rng: random.Random) -> str:
    good, other_good = rng.sample(GOOD, 2)
    bad, other_bad = rng.sample(BAD, 2)
    aspect, other_aspect = rng.sample(PARTS, 2)
    text = template.format(
        g=good, G=other_good, b=bad, B=other_bad, p=aspect, q=other_aspect,
        w=rng.choice(WHOLE), be=rng.choice(BE), very=rng.choice(VERY), liked=rng.choice(LIKED), like=rng.choice(LIKE),
        gn=rng.choice(GOOD_NOUNS), bn=rng.choice(BAD_NOUNS), day=rng.choice(DAYS), job=rng.choice(JOBS),
        place=rng.choice(PLACES),
    )  # fmt: skip
    return text[:-2] + rng.choice(["", "!"]) if text.endswith(" .") and rng.random() < 0.2 else text


def synthetic_texts(per_label: int, seed: int) -> list[Text]:
    """About `per_label` different texts for each of positive and negative, and a fifth as many undecided ones."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    labels: dict[str, int] = {}
    plan = ((1, POSITIVE, per_label), (0, NEGATIVE, per_label), (NEUTRAL, UNDECIDED, per_label // 5))
    for label, templates, count in plan:
        for _ in range(count):
            labels[fill(rng.choice(templates), rng)] = label
    return [Text(text, label) for text, label in labels.items()]
