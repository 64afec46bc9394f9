"""Pools of summaries: rated by experts, made bad, and with anchors."""

from __future__ import annotations

from collections.abc import Iterator

from engine.training.corrupt import Random, word_salad
from engine.training.examples import Asker, Unit
from engine.training.material import Material
from engine.training.pools_base import (
    DRAFT,
    OFF_TOPIC,
    Pool,
    broken,
    by_cluster,
    choose_anchors,
    cut_off,
    pick,
    with_anchors,
)
from engine.training.sources import Rated
from engine.training.style import glued, recased

GENERIC_SUMMARIES = (
    "The article is about something that happened recently.",
    "This text talks about a topic and gives some information about it.",
    "Several people said several things, and there were different opinions.",
    "It is an interesting story with many details.",
    "The article describes an event in detail. It mentions the people who were there and what they had to say about "
    "it, and explains why many readers will find it important. In the end it remains to be seen what will happen.",
    "There are several points in the text. First, something took place. Then there were reactions, some positive "
    "and some negative. Finally, the author draws a conclusion and looks at what may come next.",
)


def _dress(one: Rated, material: Material, rng: Random) -> str:
    """The summary as it comes, truecased, or as people type it."""
    draw = rng.random()
    if draw < 0.5:
        return one.response
    return one.cased if draw < 0.65 else recased(glued(one.cased), material.names)


def summary_rated(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """SummEval summaries with the experts' mean rating."""
    for one in material.summaries:
        text = _dress(one, material, rng)
        yield asker.score("summary_rated", one.cluster, "summary", one.rating, context=one.context, response=text)


def _bad(one: Rated, other: Rated, material: Material, rng: Random) -> Iterator[tuple[str, float]]:
    text, elsewhere = _dress(one, material, rng), _dress(other, material, rng)
    yield broken(text, rng)
    yield elsewhere, OFF_TOPIC
    if one.cluster in material.drafts:
        yield material.drafts[one.cluster], DRAFT
    last = rng.random()
    if last < 0.35:
        yield cut_off(text, one.rating, rng)
    elif last < 0.65:
        yield pick(GENERIC_SUMMARIES, rng), 1.4
    elif last < 0.8:
        yield word_salad(text, list(material.vocabulary), rng), 1.0


def summary_bad(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Bad summaries of each document, two rounds of about five."""
    groups = by_cluster(material.summaries)
    clusters = list(groups)
    for cluster, own in groups.items():
        for _ in range(2):
            one = own[int(rng.integers(len(own)))]
            other = groups[pick([c for c in clusters if c != cluster], rng)]
            for text, rating in _bad(one, other[int(rng.integers(len(other)))], material, rng):
                yield asker.score("summary_bad", cluster, "summary", rating, context=one.context, response=text)


def summary_anchored(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """The same ratings with two reference summaries of the same document in the prompt; some bad texts among them."""
    groups = by_cluster(material.summaries)
    for one in material.summaries:
        texts = [(_dress(o, material, rng), o.rating) for o in groups[one.cluster] if o is not one]
        drafts = [material.drafts[one.cluster]] if one.cluster in material.drafts else []
        text, rating = _dress(one, material, rng), one.rating
        if rng.random() < 0.15:
            text, rating = broken(text, rng) if rng.random() < 0.5 else cut_off(text, rating, rng)
        anchors = choose_anchors(text, texts, drafts, rng)
        slots = {"context": one.context, "response": text}
        yield from with_anchors(asker, "summary_anchored", one, slots, rating, anchors)


SUMMARY_POOLS: dict[str, Pool] = {
    "summary_rated": summary_rated,
    "summary_bad": summary_bad,
    "summary_anchored": summary_anchored,
}
