"""A run of the study `protocols` in words and as a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.attacks.distractors import PLACEBOS
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.runs.folder import RunFolder
from engine.stats.arena import Arena, build_arena, label_values
from engine.stats.intervals import Interval
from engine.stats.paired import PairedTest
from engine.studies.protocols.leaderboard import RANDOM_CYCLES, Board, board_problems, choice_sets, contradictions
from engine.studies.protocols.metrics import (
    PROTOCOLS,
    FlipComparison,
    View,
    calls_by_arm,
    clean_tie_rate,
    content_checks,
    copy_rates,
    first_slot,
    ladder,
    losers_left_out,
    order_disagreement,
    preference_strength,
    unread_warning,
)
from engine.studies.protocols.rows import (
    ALL,
    CLEAN,
    COPIES,
    IDENTICAL,
    boards_of,
    flips_by_arm,
    flips_by_placebo,
    tie_rules,
    whole_arms,
)
from engine.studies.protocols.study import ProtocolsConfig
from engine.studies.study import Summary

RAW, NET = "pairwise minus pointwise flips", "pairwise minus pointwise flips, each less the placebo's"


def as_json(arena: Arena, view: View, boards: Sequence[str], lowest: int, elo_k: float) -> dict[str, Any]:
    """The JSON object of a run under one view.

    `p_value` is that of the headline, which `p_value_of` names: less the placebo's flips where a placebo was judged.
    """
    by_arm = flips_by_arm(arena, view)
    whole = _flip_entry(arena, ALL, by_arm[ALL], view) if by_arm else None
    made = boards_of(arena, view, boards, lowest, elo_k)
    same = boards_of(arena, view, boards, lowest, elo_k, chosen_by="pairwise")
    calls = calls_by_arm(arena)
    return {
        "tie_rule": view.rule.words,
        "flip_rate": whole["flip_rate"] if whole else None,
        "flip_rate_minus_placebo": whole["minus_placebo"] if whole else None,
        "p_value": whole["p_value"] if whole else None,
        "p_value_of": whole["p_value_of"] if whole else None,
        "n_same_loser": by_arm[ALL].test.interval.n if by_arm else 0,
        "difference": whole["difference"] if whole else None,
        "difference_minus_placebo": whole["difference_minus_placebo"] if whole else None,
        "flips_by_distractor": [_flip_entry(arena, arm, ranked, view) for arm, ranked in by_arm.items()],
        "flips_by_placebo": [
            _less(arena, placebo, held, view) for placebo, held in flips_by_placebo(arena, view).items()
        ],
        "flips_by_tie_rule": [
            _flip_entry(arena, ALL, flips_by_arm(arena, under)[ALL], under)
            | {"tie_rule": name, "rule": under.rule.words}
            for name, under in tie_rules(arena, view).items()
            if by_arm
        ],
        "tie_rate": _ties(arena, view),
        "preferred_distracted": [_preference(arena, arm, view) for arm in arena.arms],
        "severity": _severity(arena, view),
        "ratings": [entry for ranked in made for entry in _ratings_json(arena, ranked)],
        "ratings_same_systems": [entry for ranked in same for entry in _ratings_json(arena, ranked)],
        "connections": [_connections(arena, ranked) for ranked in made],
        **_order(arena, view),
        "unread": [
            {"protocol": one.kind, "distractor": one.arm, "asked": one.asked, "unread": one.unread} for one in calls
        ],
        "unread_warning": unread_warning(calls),
    }


def _number(interval: Interval) -> dict[str, Any]:
    return {"value": interval.value, "lower": interval.lower, "upper": interval.upper, "n": interval.n}


def _protocols(pairwise: Interval, pointwise: Interval) -> dict[str, Any]:
    return {"pairwise": _number(pairwise), "pointwise": _number(pointwise)}


def _test(test: PairedTest) -> dict[str, Any]:
    return _number(test.interval) | {"p_value": test.p_value}


def _flip_entry(arena: Arena, arm: str, compared: FlipComparison, view: View) -> dict[str, Any]:
    net = compared.placebo_judged and arm not in PLACEBOS  # the placebo less itself is zero by construction
    arms = whole_arms(arena) if arm == ALL else [arm]
    return {
        "distractor": arm,
        "flip_rate": _protocols(compared.pairwise, compared.pointwise),
        "minus_placebo": _protocols(compared.pairwise_net, compared.pointwise_net),
        "difference": _test(compared.test),
        "difference_minus_placebo": _test(compared.net_test) if net else None,
        "p_value": (compared.net_test if net else compared.test).p_value,
        "p_value_of": NET if net else RAW,
        "losers_left_out": {p.value: losers_left_out(arena, p, arms, view) for p in PROTOCOLS},
    }


def _less(arena: Arena, placebo: str, compared: FlipComparison, view: View) -> dict[str, Any]:
    """All distractors netted by one placebo, with the placebo's own flips."""
    own = flips_by_arm(arena, view)[placebo]
    return {
        "placebo": placebo,
        "its_own": _protocols(own.pairwise, own.pointwise),
        "raw": _protocols(compared.pairwise, compared.pointwise),
        "net": _protocols(compared.pairwise_net, compared.pointwise_net),
        "difference": _test(compared.test),
        "difference_net": _test(compared.net_test),
    }


def _ties(arena: Arena, view: View) -> dict[str, Any]:
    arms = whole_arms(arena)
    return {
        protocol.value: {
            CLEAN: _number(clean_tie_rate(arena, protocol, view)),
            COPIES: _number(copy_rates(arena, protocol, arms, view).tied) if arms else None,
            IDENTICAL: _number(copy_rates(arena, protocol, [NONE], view).tied),
        }
        for protocol in PROTOCOLS
    }


def _preference(arena: Arena, arm: str, view: View) -> dict[str, Any]:
    rates = {protocol: copy_rates(arena, protocol, [arm], view) for protocol in PROTOCOLS}
    return {
        "distractor": arm,
        "placebo": arm in PLACEBOS,
        **{p.value: _number(rate.preferred) for p, rate in rates.items()},
        **{f"{p.value}_ties_half": _number(rate.half) for p, rate in rates.items()},
    }


def _severity(arena: Arena, view: View) -> list[dict[str, Any]]:
    return [
        {
            "severity": rung.severity,
            "distractor": rung.arm,
            "protocol": rung.protocol.value,
            "accuracy": rung.strict.value,
            "lower": rung.strict.lower,
            "upper": rung.strict.upper,
            "n": rung.strict.n,
            "accuracy_ties_half": rung.half.value,
            "change": _number(rung.change.interval) | {"p_value": rung.change.p_value} if rung.arm != NONE else None,
            "excluded": rung.excluded,
        }
        for rung in ladder(arena, arena.arms, view)
    ]


def _ratings_json(arena: Arena, ranked: Board) -> list[dict[str, Any]]:
    """`lower` and `upper` belong to `after`."""
    return [
        {
            "system": system,
            "protocol": ranked.protocol.value,
            "distractor": ranked.arm,
            "distracted": i in ranked.distracted,
            "before": ranked.before.rating[i],
            "before_lower": ranked.before.lower[i],
            "before_upper": ranked.before.upper[i],
            "after": ranked.after.rating[i],
            "lower": ranked.after.lower[i],
            "upper": ranked.after.upper[i],
            "shift": ranked.shift[i],
            "shift_lower": ranked.shift_lower[i],
            "shift_upper": ranked.shift_upper[i],
            "rank_before": ranked.before.rank[i],
            "rank_after": ranked.after.rank[i],
            "rank_after_lower": ranked.after.rank_lower[i],
            "rank_after_upper": ranked.after.rank_upper[i],
            "elo_before": ranked.elo_before.rating[i],
            "elo_after": ranked.elo_after.rating[i],
            "n": int(ranked.after.battles[i]),
        }
        for i, system in enumerate(arena.systems)
    ]


def _connections(arena: Arena, ranked: Board) -> dict[str, Any]:
    """Systems that met, and the limits of the ratings that follow; `problems` says them in words."""
    islands = ranked.after.connections.islands
    return {
        "protocol": ranked.protocol.value,
        "distractor": ranked.arm,
        "groups": [[arena.systems[i] for i in island] for island in islands if len(island) > 1],
        "absent": [arena.systems[island[0]] for island in islands if len(island) == 1],
        **{
            when: {
                "never_lost_or_never_won": [arena.systems[i] for i in held.degenerate],
                "finite_without_added_ties": held.finite,
            }
            for when, held in (("before", ranked.before.connections), ("after", ranked.after.connections))
        },
        "n": ranked.n,
        "left_out": ranked.left_out,
        "problems": board_problems(ranked, arena.systems),
    }


def _order(arena: Arena, view: View) -> dict[str, Any]:
    if not arena.has_pairwise:
        return dict.fromkeys(("first_slot_rate", "order_disagreement", "intransitivity", "choice_set_sensitivity"))
    averaged, single = (contradictions(arena, view, averaged=both) for both in (True, False))
    sets = [
        {"layout": choice.layout, "averaged": _number(choice.averaged), "one_order": _number(choice.single)}
        for choice in choice_sets(arena, level=view.level)
    ]
    return {
        "first_slot_rate": _number(first_slot(arena, view)),
        "order_disagreement": _number(order_disagreement(arena, view)),
        "preference_strength": _number(preference_strength(arena, view)),
        "intransitivity": {
            "averaged": _number(averaged.intransitive),
            "one_order": _number(single.intransitive),
            "cycles": _number(averaged.cyclic),
            "cycles_by_coin_tosses": RANDOM_CYCLES,
        },
        "choice_set_sensitivity": sets or None,
    }


# The same in lines to read.


def summary_of(config: ProtocolsConfig, folder: RunFolder) -> Summary:
    """The lines that the command line prints of a run, and its JSON object.

    Raises:
        InputError: the run holds no verdict.
    """
    verdicts, variants, manifest = folder.table("verdicts"), folder.table("variants"), folder.manifest()
    if not len(verdicts):
        raise InputError("The budget was spent before the first verdict. Give more --budget-seconds.")
    arena = build_arena(verdicts, variants, label_values(manifest["judge"]))
    numbers = as_json(arena, config.view, config.boards, config.lowest, config.elo_k)
    checks = [{str(name): value for name, value in row.items()} for row in content_checks(variants).to_dict("records")]
    skipped = manifest.get("skipped", {})
    lines = [*_checked(checks), *_lines(numbers), *(f"Not asked: {name}. {why}" for name, why in skipped.items())]
    about = {"data": manifest["data"]["name"], "criterion": config.criterion, "n_verdicts": len(verdicts)}
    return Summary("\n".join(lines), {**about, "rewritings": checks, **numbers, "skipped": skipped})


def _checked(checks: list[dict[str, Any]]) -> list[str]:
    """A line a style: how many rewritings the content checks kept."""
    return [
        f"rewritten {one['style']:<18} by {one['rewriter']}: {one['kept']} of {one['n']} kept, length "
        f"x{one['length_ratio']:.2f}{'; left out: ' + one['left_out'] if one['left_out'] else ''}"
        f"{'; breaks or mends a rule, so left out: ' + str(one['rules_changed']) if one['rules_changed'] else ''}"
        for one in checks
    ]


def _lines(numbers: dict[str, Any]) -> list[str]:
    lines = [f"Pointwise ties: {numbers['tie_rule']}.", *_flips(numbers["flips_by_distractor"])]
    for entry in numbers["flips_by_placebo"]:
        net = entry["net"]
        lines.append(
            f"all distractors less {entry['placebo']:<9} pairwise {_share(net['pairwise'])}  pointwise "
            f"{_share(net['pointwise'])}  difference {_tested_text(entry['difference_net'])}"
        )
    for entry in numbers["preferred_distracted"]:
        lines.append(
            f"rewriting preferred {entry['distractor']:<16} pairwise {_share(entry['pairwise'])}  "
            f"pointwise {_share(entry['pointwise'])}"
        )
    for entry in numbers["severity"]:
        lines.append(
            f"severity {entry['severity']} {entry['distractor']:<18} {entry['protocol']:<10} accuracy {_share(entry)}"
        )
    for entry in numbers["ratings"]:
        lines.append(
            f"{entry['distractor']:<18} {entry['protocol']:<10} {entry['system']:<20} {_whole(entry['before'])} -> "
            f"{_whole(entry['after'])}  rank {_rank(entry['rank_before'])} -> {_rank(entry['rank_after'])}"
            f"{'  rewritten' if entry['distracted'] else ''}"
        )
    for entry in numbers["connections"]:
        lines += [f"{entry['distractor']}, {entry['protocol']}: {problem}." for problem in entry["problems"]]
    if numbers["first_slot_rate"]:
        lines.append(f"first slot {_share(numbers['first_slot_rate'])}")
        lines.append(
            f"intransitive triads {_share(numbers['intransitivity']['averaged'])}, circles "
            f"{_share(numbers['intransitivity']['cycles'])} "
            f"({numbers['intransitivity']['cycles_by_coin_tosses']:g} if every comparison were a coin toss)"
        )
    return [*lines, *_unread(numbers)]


def _flips(entries: list[dict[str, Any]]) -> list[str]:
    """A line a distractor, the difference less the placebo's first; losers whose rewriting cannot count are said."""
    lines = []
    for entry in entries:
        rates, net, out = entry["flip_rate"], entry["difference_minus_placebo"], entry["losers_left_out"]
        raw = entry["difference"]
        tested = (
            f"difference less placebo {_tested_text(net)}, raw {_tested_text(raw)}"
            if net
            else f"difference {_tested_text(raw)}"
        )
        lines.append(
            f"flips {entry['distractor']:<22} pairwise {_share(rates['pairwise'])}  "
            f"pointwise {_share(rates['pointwise'])}  {tested}; losers left out {out['pairwise']} / {out['pointwise']}"
        )
    return lines


def _unread(numbers: dict[str, Any]) -> list[str]:
    """Judge calls without a usable answer by protocol and arm, and a warning where arms differ."""
    lost = [one for one in numbers["unread"] if one["unread"]]
    if not lost:
        return [f"unread 0 of {sum(one['asked'] for one in numbers['unread'])} verdicts"]
    parts = [f"{one['protocol']} {one['distractor']} {one['unread']} of {one['asked']}" for one in lost]
    return [f"unread: {'; '.join(parts)}", *([numbers["unread_warning"]] if numbers["unread_warning"] else [])]


def _tested_text(entry: dict[str, Any]) -> str:
    return f"{_share(entry)} p {entry['p_value']:.3g}" if entry["n"] else "no data"


def _share(entry: dict[str, Any]) -> str:
    """A number with its interval; where all items are alike, or there is one, the rows give none."""
    value = entry.get("value", entry.get("accuracy"))
    if not entry["n"]:
        return "no data"
    known = entry["lower"] == entry["lower"]
    ends = f"[{entry['lower']:.3f}, {entry['upper']:.3f}]" if known else "(no interval: one item, or all items alike)"
    return f"{value:.3f} {ends} n {entry['n']}"


def _whole(rating: float) -> str:
    return f"{rating:>6.0f}" if rating == rating else f"{'none':>6}"


def _rank(rank: float) -> str:
    return f"{rank:g}" if rank == rank else "none"
