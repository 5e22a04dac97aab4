"""The forms a query can take: sentences with slots, such as "{quality} {thing} {aspect} in {place}".

A query without its misspelling and narrowing word is a form and an index into all fillings of the form's slots. The
index is a number in mixed radix, one digit per slot, so texts are assembled for millions of queries at once by table
look-ups. The lowest digit belongs to the slot that a searcher changes when rephrasing ("hotels in reno" -> "hotels in
boise").
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from searchveil.log.demo import names, web
from searchveil.log.demo.topics import TOPICS, Topic

MAX_SLOTS = 10

# (template, share among the templates with as many words), once per topic and once for all topics together.
TOPIC_TEMPLATES = (
    ("{thing} {aspect}", 0.20),
    ("{quality} {thing}", 0.10),
    ("{quality} {thing} {aspect}", 0.15),
    ("{thing} {aspect} {place}", 0.20),
    ("{quality} {thing} {aspect} {place}", 0.25),
    ("{thing} {aspect} in {place}", 0.15),
    ("how to {verb} {thing}", 0.05),
    ("{quality} {thing} {aspect} in {place}", 0.30),
    ("how to {verb} {quality} {thing}", 0.20),
    ("{quality} {thing} {aspect} in {place} {state}", 0.60),
    ("how do i {verb} my {quality} {thing}", 0.25),
    ("what is the best {aspect} for {quality} {thing}", 0.20),
    ("where can i find {quality} {thing} {aspect} in {place}", 0.25),
)
COMMON_TEMPLATES = (
    ("{given} {surname}", 0.26),
    ("{place} {anything}", 0.10),
    ("{any_quality} {anything}", 0.11),
    ("{surname} {anything}", 0.14),
    ("{maker} {anything}", 0.09),
    ("{anything} {any_aspect}", 0.08),
    ("{maker} {model}", 0.08),
    ("{given} {surname} {place}", 0.18),
    ("{maker} {anything} {any_aspect}", 0.15),
    ("{place} {state} {anything}", 0.17),
    ("{any_quality} {anything} {place}", 0.15),
    ("{given} {surname} {place} {state}", 0.20),
    ("{surname} {anything} {place} {state}", 0.15),
    ("{anything} in {place} {state}", 0.20),
    ("{surname} {anything} in {place} {state}", 0.25),
    ("{anything} and {anything} {place} {state}", 0.25),
    ("{any_quality} {anything} for sale in {place}", 0.40),
    ("how much does {anything} cost in {place} {state}", 0.30),
)
ONE_WORD_TEMPLATES = (
    ("{single}", 0.9),
    ("{place}{anything}", 0.06),
    ("{anything}{site_word}", 0.28),
    ("{surname}{site_word}", 0.28),
    ("{letters}{number}", 0.10),
)
ADDRESS_TEMPLATE = "{style}{site}{site}{ending}"


@dataclass
class _Builder:
    """Lays all word lists out in one table and turns templates into ranges of it."""

    words: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    def slot(self, name: str, words: tuple[str, ...]) -> None:
        self.ranges[name] = (len(self.words), len(words))
        self.words.extend(words)

    def slots_of(self, template: str, topic: Topic | None) -> list[tuple[int, int]]:
        tokens = template.replace("}{", "} {").split()
        return [self._range(token, topic) for token in tokens]

    def _range(self, token: str, topic: Topic | None) -> tuple[int, int]:
        name = token.strip("{}") if token.startswith("{") else f"literal {token}"
        if topic is not None and name in ("thing", "aspect", "quality", "verb"):
            name = f"{topic.name} {name}"
        if name not in self.ranges:
            self.slot(name, (token,))
        return self.ranges[name]


@dataclass(frozen=True)
class Forms:
    """All forms, one row each; unused slots hold the word table's last entry, which is null."""

    words: list[str | None]
    first_word: npt.NDArray[np.int64]  # (form, slot) where the slot's words start in the table
    radix: npt.NDArray[np.int64]  # (form, slot) how many words the slot has
    divisor: npt.NDArray[np.int64]  # (form, slot) what to divide the index by for the slot's digit
    capacity: npt.NDArray[np.int64]  # fillings of each form
    last_radix: npt.NDArray[np.int64]  # size of the lowest digit
    word_count: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]  # within forms of as many words
    glued: npt.NDArray[np.bool_]  # slots joined without spaces
    topical: npt.NDArray[np.bool_]  # all slots about one topic: what many people would ask
    head: int
    address: int
    single: int
    personal: int


def _every_slot() -> _Builder:
    builder = _Builder()
    for topic in TOPICS:  # things first, side by side, so that {anything} is one range over all of them
        builder.slot(f"{topic.name} thing", topic.things)
    things = tuple(builder.words)
    builder.ranges["anything"] = (0, len(things))
    for topic in TOPICS:
        builder.slot(f"{topic.name} aspect", topic.aspects)
        builder.slot(f"{topic.name} quality", topic.qualities)
        builder.slot(f"{topic.name} verb", topic.verbs)
    builder.slot("any_aspect", tuple(sorted({word for topic in TOPICS for word in topic.aspects})))
    builder.slot("any_quality", tuple(sorted({word for topic in TOPICS for word in topic.qualities})))
    builder.slot("given", names.GIVEN_NAMES)
    builder.slot("surname", names.SURNAMES)
    builder.slot("place", names.PLACES)
    builder.slot("state", names.STATES)
    builder.slot("maker", names.MAKERS)
    builder.slot("single", tuple(sorted({*things, *names.PLACES, *names.STATES[:40], *names.MAKERS})))
    short_things = tuple(word for word in things if len(word) <= 6)
    builder.slot("site_word", web.SITE_WORDS)
    builder.slot("site", tuple(sorted({*web.SITE_WORDS, *short_things, *names.MAKERS})))
    builder.slot("style", web.SITE_STYLES)
    builder.slot("ending", web.SITE_ENDINGS)
    builder.slot("letters", web.MODEL_LETTERS)
    builder.slot("number", web.MODEL_NUMBERS)
    numbers = web.MODEL_NUMBERS[::6]
    builder.slot("model", tuple(letters + number for letters in web.MODEL_LETTERS[:30] for number in numbers))
    builder.slot("head", web.HEAD_QUERIES)
    return builder


def _every_template() -> list[tuple[str, float, Topic | None]]:
    """Each with its share, and with the topic that its words are about."""
    templates: list[tuple[str, float, Topic | None]] = [("{head}", 0.0, None), (ADDRESS_TEMPLATE, 0.0, None)]
    templates += [(template, share, None) for template, share in (*ONE_WORD_TEMPLATES, *COMMON_TEMPLATES)]
    templates += [(template, share / len(TOPICS), topic) for topic in TOPICS for template, share in TOPIC_TEMPLATES]
    return templates


def _build() -> Forms:
    builder, templates = _every_slot(), _every_template()
    names_of_forms = [template for template, _, _ in templates]
    slots = [builder.slots_of(template, topic) for template, _, topic in templates]
    nothing = len(builder.words)
    count = len(templates)
    first_word = np.full((count, MAX_SLOTS), nothing, np.int64)
    radix = np.ones((count, MAX_SLOTS), np.int64)
    divisor = np.ones((count, MAX_SLOTS), np.int64)
    last_radix = np.ones(count, np.int64)
    for form, ranges in enumerate(slots):
        used = len(ranges)
        first_word[form, :used], radix[form, :used] = np.transpose(ranges)
        # Digits from the last slot up, except that an address is rephrased by its style, its first slot.
        order = list(range(used)) if names_of_forms[form] == ADDRESS_TEMPLATE else list(reversed(range(used)))
        order.sort(key=lambda slot: radix[form, slot] == 1)
        divisor[form, order] = np.cumprod([1, *radix[form, order[:-1]]])
        # A query of one slot has nothing left when its only word is swapped: it is never rephrased.
        last_radix[form] = radix[form, order[0]] if used > 1 else 1
    glued = np.array(["}{" in template for template in names_of_forms])
    return Forms(
        words=[*builder.words, None],
        first_word=first_word,
        radix=radix,
        divisor=divisor,
        capacity=radix.prod(axis=1),
        last_radix=last_radix,
        word_count=np.array([1 if "}{" in template else len(template.split()) for template in names_of_forms]),
        share=np.array([share for _, share, _ in templates]),
        glued=glued,
        topical=np.array([topic is not None for _, _, topic in templates]),
        head=0,
        address=1,
        single=names_of_forms.index("{single}"),
        personal=count,
    )


FORMS = _build()
