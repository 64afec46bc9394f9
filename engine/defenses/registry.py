"""From a name to a judge around a judge: the one place where they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.defenses.cards import DEFENSES, DefenseCard
from engine.defenses.guard import Guard, guard_for
from engine.defenses.names import DefenseName, defense_name, parse_defenses
from engine.defenses.prompting import QuotingJudge
from engine.defenses.retokenise import RetokenisingJudge
from engine.defenses.screening import detector_judge, perplexity_judge
from engine.judges.base import Judge
from engine.settings import get_settings

__all__ = ["DEFENSES", "DefenseCard", "defend", "defense_name", "describe_defense"]


def defend(judge: Judge, name: str, guard: Guard | None = None) -> Judge:
    """The judge behind the named defense; several are joined by `+` and work in the order named.

    The first stands nearest to the response, and each later one takes what the earlier ones made of it.

    Args:
        judge: any judge.
        name: for example `delimiters`, `perplexity?threshold=120&window=16` or `retokenise+sandwich`.
        guard: answers the screening defenses' questions about texts; by default the bundled base model, loaded on
            first use.

    Raises:
        InputError: no such defense or dial, or a value outside its range.
    """
    parts = parse_defenses(name)
    made = guard if guard or not any(part.card.needs_weights for part in parts) else guard_for(judge)
    for part in reversed(parts):  # the outermost judge works first
        judge = _MAKERS.get(part.base, _quoting)(judge, part, made)
    return judge


def describe_defense(name: str) -> DefenseCard:
    """The card of an arm; dials set by hand and joined defenses are in its title.

    Raises:
        InputError: as `defend`.
    """
    whole = defense_name(name)
    if whole in DEFENSES:
        return DEFENSES[whole]
    parts = [DEFENSES.get(one.name) or _dialled(one) for one in parse_defenses(name)]
    if len(parts) == 1:
        return parts[0]
    return DefenseCard(
        whole,
        " + ".join(part.title for part in parts),
        " Then: ".join(part.about for part in parts),
        "; ".join(dict.fromkeys(part.source for part in parts)),
        needs_weights=any(part.needs_weights for part in parts),
    )


def _dialled(one: DefenseName) -> DefenseCard:
    dials = one.name.partition("?")[2].replace("=", " ").replace("&", ", ")
    return replace(one.card, name=one.name, title=f"{one.card.title} ({dials})")


def _quoting(judge: Judge, part: DefenseName, guard: Guard | None) -> Judge:  # noqa: ARG001
    return QuotingJudge(judge, part.base)


def _retokenising(judge: Judge, part: DefenseName, guard: Guard | None) -> Judge:  # noqa: ARG001
    return RetokenisingJudge(
        judge,
        part.name,
        rate=part.dials["rate"],
        seed=int(part.dials["seed"]),
        tokenizer=get_settings().assets / "judge" / "tokenizer.json",
    )


def _perplexity(judge: Judge, part: DefenseName, guard: Guard | None) -> Judge:
    made = guard or guard_for(judge)
    return perplexity_judge(judge, part.name, made, part.dials["threshold"], int(part.dials["window"]))


def _detector(judge: Judge, part: DefenseName, guard: Guard | None) -> Judge:
    return detector_judge(judge, part.name, guard or guard_for(judge), part.dials["threshold"])


_MAKERS: dict[str, Callable[[Judge, DefenseName, Guard | None], Judge]] = {
    "retokenise": _retokenising,
    "perplexity": _perplexity,
    "detector": _detector,
}
