"""Reading the judges of a panel from runs and recordings, and writing its tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.cards import saved_phrases
from engine.core.errors import EngineError, InputError, listed, shown
from engine.core.schema import NONE, Order, Outcome, Protocol
from engine.data.comparisons import Comparisons, is_pairs
from engine.data.dataset import Dataset
from engine.data.families import family_of
from engine.data.mapping import known_right
from engine.data.raw import cells_of
from engine.data.recordings import shipped_recordings
from engine.judges.recorded import RECORDED, open_recording, read_spec
from engine.runs.folder import RunFolder, now
from engine.runs.library import find_run
from engine.stats.agreement import combine_orders
from engine.stats.shifts import paired_shifts
from engine.studies.panel.metrics import SUBJECT, ballot_of, panel_table
from engine.studies.panel.study import MOST_JUDGES, PanelConfig
from engine.studies.panel.tables import JUDGES, VOTES
from engine.studies.study import Context

_PHRASE = re.compile(r"suffix:([a-z][a-z0-9-]*)(?::([0-9]+))?")
_SIDE = {
    Outcome.A.value: 1.0,
    Outcome.TIE.value: 0.5,
    Outcome.B.value: 0.0,
    Outcome.YES.value: 1.0,
    Outcome.NO.value: 0.0,
}
UNITS = {"pairwise": "share of pairs", "pointwise": "Spearman", "verifier": "share of responses"}
NOUNS = {"pairwise": "pairs", "pointwise": "responses", "verifier": "responses"}


@dataclass(frozen=True)
class Voter:
    """One judge with its verdicts.

    Attributes:
        name: in the panel.
        spec: of the judge.
        source: the run or the recording.
        verdicts: table `verdicts` of this judge alone.
        data: id of the data it judged; empty where not known.
        scale: values of its score labels, as the manifest has them.
        phrase: the phrase that its run learned; empty for other studies.
    """

    name: str
    spec: str
    source: str
    verdicts: pd.DataFrame
    data: str = ""
    scale: tuple[float, ...] = ()
    phrase: str = ""


def run_panel(config: PanelConfig, context: Context, run: RunFolder) -> None:
    """Read the verdicts, compare the judges, write the tables.

    Raises:
        InputError: fewer than two judges, or nothing that all of them judged.
    """
    context.checkpoint(0, 2)
    voters = _named([*_from_runs(config.runs, context, run.path.parent), *_from_recordings(config.judges, context)])
    if not 2 <= len(voters) <= MOST_JUDGES:
        raise InputError(
            f"A panel has 2 to {MOST_JUDGES} judges; these runs and recordings hold {len(voters)}. Name runs with "
            '--set \'runs=["ID", "ID"]\', or a recording of several judges with --judge recorded:FILE.'
        )
    protocol, cast = _cast(voters, config.protocol)
    people, data_name, note = _people(config, voters, protocol, context)
    votes = _votes(cast, people)
    judges = _judges(voters, votes, protocol)
    scales = {v.scale for v in voters}
    ballot = ballot_of(votes, protocol, same_scale=len(scales) == 1 and scales != {()})
    context.checkpoint(1, 2)
    shifts = _shifts(voters)
    families = dict(zip(judges["judge"], judges["family"].fillna(""), strict=True))
    table = panel_table(ballot, shifts, _owners(voters, shifts), families, level=config.level, seed=config.seed)
    for name, frame in (("panel_votes", votes), ("panel_judges", judges), ("panel", table)):
        run.write_table(name, frame)
    about = {
        "protocol": protocol,
        "unit": UNITS[protocol],
        "subjects": NOUNS[protocol],
        "between": "Spearman" if ballot.scores else "Cohen's kappa",
        "n_judges": len(voters),
        "n_subjects": len(ballot.subjects),
        "n_labelled": int((~np.isnan(ballot.human)).sum()),
        "standardised": bool(ballot.scores and len(scales) > 1),
        "notes": [note] if note else [],
    }
    named = ", ".join(v.name for v in voters)
    run.update_manifest(
        state="done",
        finished=now(),
        data={"dataset_id": config.data or voters[0].data, "name": data_name, "n_items": len(set(ballot.items))},
        judge={"spec": named, "fingerprint": "", "labels": [], "device": "no model"},
        panel=about,
    )
    context.checkpoint(2, 2)


# The judges.


def _from_runs(names: Iterable[str], context: Context, beside: Path) -> Iterable[Voter]:
    """The judges of runs; a run beside the panel's own folder comes first, then the user's and those that ship."""
    settings = context.settings
    for name in names:
        folder = RunFolder(beside / name)
        if "/" in name or not (folder.path / "manifest.json").is_file():
            folder = find_run(settings.runs, settings.assets / "demo", name)
        manifest, verdicts = folder.manifest(), folder.table("verdicts")
        if verdicts.empty:
            raise InputError(
                f"The run {shown(name)} holds no verdicts, so its judge cannot join a panel. Leave it out."
            )
        config = manifest.get("config") or {}
        spec = str((manifest.get("judge") or {}).get("spec") or config.get("judge") or "")
        phrase = str((manifest.get("phrase") or {}).get("name") or "")
        scale = tuple(float(v) for v in (manifest.get("judge") or {}).get("values") or _numbers(manifest))
        for judge, own in verdicts.groupby("judge", sort=False):
            own_spec = spec if verdicts["judge"].nunique() == 1 and spec else str(judge)
            yield Voter(_short(own_spec), own_spec, name, own, str(config.get("data") or ""), scale, phrase)


def _numbers(manifest: Mapping[str, Any]) -> list[float]:
    labels = (manifest.get("judge") or {}).get("labels") or []
    with suppress(ValueError):
        return [float(label) for label in labels]
    return []


def _from_recordings(specs: Iterable[str], context: Context) -> Iterable[Voter]:
    """Every judge of each recording."""
    for spec in specs:
        if not spec.startswith(RECORDED):
            raise InputError(
                f"{shown(spec)} is no recording: a panel asks no judge. Run a study with --judge A --judge B, which "
                "ends in a panel, or name a recording, for example recorded:demo-llmbar?prompt=Vanilla."
            )
        name = read_spec(spec)[0]
        _, recording = open_recording(spec, roots=() if context.local_files else context.settings.model_roots)
        several = recording.verdicts["judge"].nunique() > 1
        data = name if is_pairs(name, context.settings.comparisons) else ""
        for judge, own in recording.verdicts.groupby("judge", sort=False):
            yield Voter(str(judge) if several else _short(spec), spec, name, own, data)


def _short(spec: str) -> str:
    """A judge's name: of a recording the judge or the file, of a model its name without the maker's."""
    if spec.startswith(RECORDED):
        name, selection = read_spec(spec)
        return selection.where.get("judge") or name.rpartition("/")[2]
    if spec.partition(":")[0] in ("hf", "path"):
        return spec.partition(":")[2].partition("@")[0].rstrip("/").rpartition("/")[2] or spec
    return spec.removeprefix("api:")


def _named(voters: list[Voter]) -> list[Voter]:
    """The voters with different names: where several share one, the run or a number stands behind it."""
    taken: dict[str, int] = {}
    out = []
    for voter in voters:
        name = voter.name
        if sum(v.name == name for v in voters) > 1:
            same_source = sum((v.name, v.source) == (name, voter.source) for v in voters) > 1
            taken[name] = taken.get(name, 0) + 1
            name = f"{name} ({taken[name] if same_source else voter.source.rpartition('/')[2]})"
        out.append(Voter(name, *(getattr(voter, f) for f in list(voter.__dataclass_fields__)[1:])))
    return out


# Their votes on the same subjects.


def _cast(voters: list[Voter], wanted: str) -> tuple[str, dict[str, pd.DataFrame]]:
    """The protocol, and each judge's votes on the subjects that all were asked, in one order.

    Raises:
        InputError: there is no such subject.
    """
    best: tuple[str, dict[str, pd.DataFrame]] = ("", {})
    most = 0
    for protocol in (
        [wanted] if wanted else [p.value for p in (Protocol.PAIRWISE, Protocol.POINTWISE, Protocol.VERIFIER)]
    ):
        cast = {v.name: _votes_of(v.verdicts, protocol) for v in voters}
        common = set.intersection(*(set(_keys(c)) for c in cast.values()))
        if len(common) > most:
            most = len(common)
            kept = {n: c[[k in common for k in _keys(c)]] for n, c in cast.items()}
            best = protocol, {n: c.sort_values(SUBJECT, kind="stable").reset_index(drop=True) for n, c in kept.items()}
    if not most:
        held = "; ".join(f"{v.name}: {listed(sorted(set(v.verdicts['protocol'])))}" for v in voters)
        raise InputError(
            f"No clean verdict of {wanted or 'one protocol'} is about the same responses for every judge ({held}). "
            "Choose runs of the same study on the same data."
        )
    return best


def _keys(votes: pd.DataFrame) -> list[tuple[str, str, str]]:
    return list(zip(*(cells_of(votes[c].fillna("")) for c in SUBJECT), strict=True))


def _votes_of(verdicts: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Clean votes of one judge: item_id, response_id, response_b, vote, side, and what each cost."""
    rows = verdicts[
        (verdicts["protocol"] == protocol) & (verdicts["attack"] == NONE) & (verdicts["defense"] == NONE)
        & verdicts["reference_id"].isna()
    ]  # fmt: skip
    variant = rows["variant"].fillna("")
    if variant.nunique() > 1:
        rows = rows[variant == variant.mode().iloc[0]]
    subject = rows.assign(response_b=rows["response_b"].fillna(""))
    if protocol == Protocol.PAIRWISE.value:
        return _pair_votes(subject)
    subject = subject.drop_duplicates(SUBJECT)
    outcome = subject["outcome"].map(_SIDE).to_numpy(dtype=float)
    value = subject["score" if protocol == Protocol.POINTWISE.value else "p_yes"].to_numpy(dtype=float)
    scores = protocol == Protocol.POINTWISE.value
    made = subject[SUBJECT].assign(
        vote=value if scores else np.where(np.isnan(value), outcome, value), side=np.nan if scores else outcome
    )
    unread = subject["unread_reason"].notna().to_numpy()
    made.loc[unread, ["vote", "side"]] = np.nan
    return made.reset_index(drop=True)


def _pair_votes(rows: pd.DataFrame) -> pd.DataFrame:
    """Both orders as one vote; where no pair was asked in both, each verdict counts by itself. Ids stand sorted."""
    orders = rows.groupby(SUBJECT)["order"].nunique()
    if len(orders) and orders.max() > 1:
        once = rows[rows["order"].notna()].drop_duplicates([*SUBJECT, "order"])
        pairs = combine_orders(once.assign(judge="", attack=NONE, defense=NONE))
    else:
        pairs = rows.drop_duplicates(SUBJECT)
    outcome = pairs["outcome"].map(_SIDE).to_numpy(dtype=float)
    p = pairs["p_a"].to_numpy(dtype=float) + np.nan_to_num(pairs["p_tie"].to_numpy(dtype=float)) / 2
    vote = np.where(np.isnan(p) & ~np.isnan(outcome), outcome, p)
    vote = np.where(np.isnan(outcome), np.nan, vote)
    turned = (pairs["response_id"] > pairs["response_b"]).to_numpy()
    made = pairs[SUBJECT].reset_index(drop=True)
    first, second = (made[c].to_numpy(dtype=object).copy() for c in ("response_id", "response_b"))
    made["response_id"], made["response_b"] = np.where(turned, second, first), np.where(turned, first, second)
    made["vote"], made["side"] = np.where(turned, 1 - vote, vote), np.where(turned, 1 - outcome, outcome)
    return made.drop_duplicates(SUBJECT).reset_index(drop=True)


def _votes(cast: dict[str, pd.DataFrame], people: People) -> pd.DataFrame:
    """The table `panel_votes`."""
    parts = []
    for name, own in cast.items():
        part = own.assign(judge=name)
        part["system"] = [people.system(i, r) for i, r in zip(own["item_id"], own["response_id"], strict=True)]
        part["system_b"] = [people.system(i, r) for i, r in zip(own["item_id"], own["response_b"], strict=True)]
        part["human"] = [people.label(*key) for key in _keys(own)]
        parts.append(part.assign(response_b=part["response_b"].replace("", None)))
    return VOTES.conform(pd.concat(parts, ignore_index=True))


# People's labels.


@dataclass(frozen=True)
class People:
    """People's labels and the systems behind the responses.

    Attributes:
        systems: response id -> system.
        labels: subject, ids of a pair sorted -> people's side or score.
        scores: response id -> people's score, for pairs that have no label of their own.
        pairs: the subjects are pairs.
    """

    systems: Mapping[str, str]
    labels: Mapping[tuple[str, str, str], float]
    scores: Mapping[str, float]
    pairs: bool

    def system(self, item: str, response: str) -> str | None:
        """The system: by the data, else by an id `item:system`."""
        if response in self.systems:
            return self.systems[response]
        found = str(response).removeprefix(f"{item}:") if str(response).startswith(f"{item}:") else ""
        return found if found not in ("", "a", "b") else None  # the sides of a pair name no system

    def label(self, item: str, response: str, other: str) -> float:
        """People's label of a subject; NaN where there is none."""
        found = self.labels.get((item, response, other), np.nan)
        if np.isnan(found) and self.pairs:
            gap = self.scores.get(response, np.nan) - self.scores.get(other, np.nan)
            return float(0.5 + 0.5 * np.sign(gap))
        return float(found)


def _people(config: PanelConfig, voters: list[Voter], protocol: str, context: Context) -> tuple[People, str, str]:
    """People's labels of the data, the data's name, and why there are none; a panel works without them."""
    pairs = protocol == Protocol.PAIRWISE.value
    name = config.data or next((v.data for v in voters if v.data), "")
    nobody = People({}, {}, {}, pairs)
    if not name:
        shipped = {read_spec(r.spec)[0]: r.format for r in shipped_recordings()}
        called = shipped.get(voters[0].source, voters[0].source if not config.runs else "")
        return nobody, called, "No people's labels of these comparisons are known."
    try:
        if context.data.holds_pairs(name):
            held: Comparisons | Dataset = context.data.comparisons(name)
        else:
            held = context.data.dataset(name)
    except EngineError as error:
        if config.data:
            raise
        return nobody, name, f"People's labels are not known: {error}"
    responses = held.responses
    systems = {r: s for r, s in zip(responses["response_id"], responses["system"], strict=True) if isinstance(s, str)}
    rated = responses.dropna(subset="human_score")
    scores = {str(r): float(s) for r, s in zip(rated["response_id"], rated["human_score"], strict=True)}
    labels: dict[tuple[str, str, str], float] = {}
    if protocol == Protocol.POINTWISE.value:
        labels = {
            (str(i), str(r), ""): scores[str(r)] for i, r in zip(rated["item_id"], rated["response_id"], strict=True)
        }
    elif protocol == Protocol.VERIFIER.value and isinstance(held, Dataset):
        right, at = known_right(held), dict(zip(responses["response_id"], responses["item_id"], strict=True))
        labels = {(str(at[r]), r, ""): float(known) for r, known in right.items()}
    elif isinstance(held, Comparisons):
        for row in held.comparisons.dropna(subset="human").to_dict("records"):
            a, b, side = str(row["response_a"]), str(row["response_b"]), _SIDE[str(row["human"])]
            labels[str(row["item_id"]), min(a, b), max(a, b)] = side if a <= b else 1 - side
    return People(systems, labels, scores, pairs), held.name, ""


# What a verdict costs, and what attacks do.


def _judges(voters: list[Voter], votes: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """The table `panel_judges`; calls and tokens are those of the votes that the panel has."""
    rows = []
    for voter in voters:
        own = votes[votes["judge"] == voter.name]
        v = voter.verdicts
        clean = v[(v["protocol"] == protocol) & (v["attack"] == NONE) & (v["defense"] == NONE)]
        clean = clean[clean["item_id"].isin(own["item_id"]) & clean["response_id"].isin(
            {*own["response_id"], *own["response_b"].dropna()}
        )]  # fmt: skip
        both = protocol == Protocol.PAIRWISE.value and set(clean["order"].dropna()) == {o.value for o in Order}
        calls = 2.0 if both else 1.0
        rows.append(
            {
                "judge": voter.name,
                "spec": voter.spec,
                "run": voter.source,
                "family": family_of(voter.name) or family_of(voter.spec) or None,
                "n_calls": int(calls * len(own)),
                "n_unread": int((own["vote"].isna()).sum()),
                "calls": calls,
                "prompt_tokens": calls * float(clean["prompt_tokens"].astype("float64").mean()),
                "seconds": calls * float(clean["seconds"].mean()),
            }
        )
    return JUDGES.conform(pd.DataFrame(rows))


def _shifts(voters: list[Voter]) -> dict[str, pd.DataFrame]:
    """Shift of each response under each attack without a defense, of the judges that were attacked."""
    found = {}
    for voter in voters:
        verdicts = voter.verdicts[voter.verdicts["defense"] == NONE]
        if ((verdicts["protocol"] == Protocol.POINTWISE.value) & (verdicts["attack"] != NONE)).any():
            shifts = paired_shifts(verdicts)
            found[voter.name] = shifts.assign(attack=shifts["attack"].map(_whole_phrase(shifts["attack"].unique())))
    return found


def _whole_phrase(attacks: Iterable[str]) -> dict[str, str]:
    """Attack -> its name; a phrase at its longest stands under the phrase's name, its beginnings under their own."""
    parts = {attack: found for attack in attacks if (found := _PHRASE.fullmatch(attack))}
    longest: dict[str, tuple[float, str]] = {}
    for attack, found in parts.items():
        length = float(found[2] or math.inf)  # without a number it is the whole phrase
        longest[found[1]] = max(longest.get(found[1], (0.0, "")), (length, attack))
    whole = {attack: f"suffix:{phrase}" for phrase, (_, attack) in longest.items()}
    return {attack: whole.get(attack, attack) for attack in attacks}


def _owners(voters: list[Voter], shifts: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Attack -> the judge that its phrase was learned on: phrases that a run of the panel learned, or saved ones."""
    known = {f"suffix:{name}": _short(phrase.judge) for name, phrase in saved_phrases().items()}
    known |= {f"suffix:{v.phrase}": v.name for v in voters if v.phrase}
    used = {str(a) for s in shifts.values() for a in s["attack"].unique()}
    return {attack: owner for attack, owner in known.items() if attack in used}
