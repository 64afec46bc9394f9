"""Defenses by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.core.errors import InputError
from engine.core.settings import get_settings
from engine.defenses.anchors import PROMPTED, AnchoredJudge, AnchorSource, PromptedAnchors
from engine.defenses.cards import DEFENSES, DefenseCard, DefenseName, defense_name, parse_defenses
from engine.defenses.guard import Guard, base_loader, detector_judge, guard_for, own_model, perplexity_judge, reasons
from engine.defenses.prompting import QuotingJudge, RetokenisingJudge
from engine.defenses.reasoning import ReasoningJudge
from engine.defenses.writing import writer_for
from engine.judges.base import Judge


@dataclass(frozen=True)
class Helpers:
    """Needs of a defense besides the judge: a guard for questions about texts, and sources of anchors."""

    guard: Guard | None
    sources: Mapping[str, AnchorSource]


def defend(
    judge: Judge, name: str, guard: Guard | None = None, *, sources: Mapping[str, AnchorSource] | None = None
) -> Judge:
    """The judge behind the named defense; several are joined by `+` and work in the order named.

    The first stands nearest to the response, and each later one takes what the earlier ones made of it.

    Args:
        judge: any judge.
        name: for example `delimiters`, `perplexity?threshold=120&window=16` or `retokenise+sandwich`.
        guard: answers the screening defenses' questions about texts; by default the bundled base model, loaded on
            first use.
        sources: of anchors, by the name of the anchored defense. Anchors that a tutor writes on
            request come from the bundled base model where none is given.

    Raises:
        InputError: no such defense or option, a value outside its range, or an anchored defense without a source.
    """
    parts = parse_defenses(name)
    made = guard if guard or not any(part.card.needs_weights for part in parts) else guard_for(judge)
    helpers = Helpers(made, sources or {})
    for part in reversed(parts):  # the outermost judge works first
        if (card := DEFENSES.use(part.base)) and card.make:
            judge = card.make(judge, part)
            continue
        make = _anchored if part.card.anchored else _MAKERS.get(part.base, _quoting)
        judge = make(judge, part, helpers)
    return judge


def describe_defense(name: str) -> DefenseCard:
    """The card of an arm; options set by hand and joined defenses are in its title.

    Raises:
        InputError: as `defend`.
    """
    whole = defense_name(name)
    if whole in DEFENSES:
        return DEFENSES[whole]
    parts = [DEFENSES.get(one.name) or _with_options(one) for one in parse_defenses(name)]
    if len(parts) == 1:
        return parts[0]
    return DefenseCard(
        whole,
        " + ".join(part.title for part in parts),
        " Then: ".join(part.about for part in parts),
        "; ".join(dict.fromkeys(part.source for part in parts)),
        needs_weights=any(part.needs_weights for part in parts),
    )


def _with_options(one: DefenseName) -> DefenseCard:
    options = one.name.partition("?")[2].replace("=", " ").replace("&", ", ")
    return replace(one.card, name=one.name, title=f"{one.card.title} ({options})")


def _quoting(judge: Judge, part: DefenseName, helpers: Helpers) -> Judge:  # noqa: ARG001
    return QuotingJudge(judge, part.base)


def _retokenising(judge: Judge, part: DefenseName, helpers: Helpers) -> Judge:  # noqa: ARG001
    return RetokenisingJudge(
        judge,
        part.name,
        rate=part.options["rate"],
        seed=int(part.options["seed"]),
        tokenizer=get_settings().assets / "judge" / "tokenizer.json",
    )


def _perplexity(judge: Judge, part: DefenseName, helpers: Helpers) -> Judge:
    made = helpers.guard or guard_for(judge)
    return perplexity_judge(judge, part.name, made, part.options["threshold"], int(part.options["window"]))


def _detector(judge: Judge, part: DefenseName, helpers: Helpers) -> Judge:
    own_model(judge)  # refused before the run where the judge's model is on other machines
    return detector_judge(judge, part.name, helpers.guard or guard_for(judge), part.options["threshold"])


def _reasoning(judge: Judge, part: DefenseName, helpers: Helpers) -> Judge:  # noqa: ARG001
    settings = get_settings()
    writer = None if reasons(judge) else writer_for(base_loader(settings), settings.calls)
    return ReasoningJudge(judge, part.name, writer, int(part.options["tokens"]))


def _anchored(judge: Judge, part: DefenseName, helpers: Helpers) -> Judge:
    source = helpers.sources.get(part.base)
    if source is None and part.base in PROMPTED:
        settings = get_settings()
        source = PromptedAnchors(part.base, writer_for(base_loader(settings), settings.calls), PROMPTED[part.base])
    if source is None:
        raise InputError(
            f"The defense {part.base} takes its anchors from a data set's other responses or from a study's own; "
            "judge responses of a saved data set, or use wcap, whose anchors a tutor writes."
        )
    return AnchoredJudge(judge, part.name, source)


_MAKERS: dict[str, Callable[[Judge, DefenseName, Helpers], Judge]] = {
    "retokenise": _retokenising,
    "perplexity": _perplexity,
    "detector": _detector,
    "cot": _reasoning,
}
