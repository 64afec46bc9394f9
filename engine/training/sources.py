"""The public data sets as typed records, each with the side it belongs to.

The data are read from a folder outside the project (`../shared/data` by default) and never committed. Licences:
SummEval, TopicalChat (USR), LLMBar's sets, GSM8K and its model solutions MIT; PandaLM, MT-Bench and IFEval
Apache-2.0.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import InputError
from engine.core.schema import Task
from engine.training.heldout import Side, same_text, side_of_number, side_of_prompt, side_of_question

DEFAULT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SUMMARY_ASPECTS = ("coherence", "consistency", "fluency", "relevance")


@dataclass(frozen=True)
class Rated:
    """A response with a human rating on 1-5; `cluster` names the context it shares with others."""

    cluster: str
    side: Side
    task: Task
    context: str
    response: str
    rating: float
    system: str
    cased: str = ""


@dataclass(frozen=True)
class Pair:
    """Two responses to one prompt with human votes (for a, for b, for a tie)."""

    pair_id: str
    subset: str
    side: Side
    prompt: str
    material: str
    response_a: str
    response_b: str
    votes: tuple[float, float, float]
    human: str

    @property
    def context(self) -> str:
        """The instruction shown to the judge: the prompt and, below it, the text it is about."""
        return f"{self.prompt}\n\n{self.material}" if self.material else self.prompt


@dataclass(frozen=True)
class Solution:
    """A model's solution of a GSM8K question and whether its final number is right."""

    number: int
    side: Side
    question: str
    reference: str
    response: str
    correct: bool


@dataclass(frozen=True)
class RulePrompt:
    """An IFEval prompt with its checkable rules: (rule id, its arguments)."""

    key: int
    side: Side
    prompt: str
    rules: tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class WrittenDialogue:
    """A short everyday dialogue written for training, with good and weak replies."""

    number: int
    side: Side
    turns: tuple[str, ...]
    good: tuple[str, ...]
    weak: tuple[str, ...]

    @property
    def cluster(self) -> str:
        """Its name among the clusters."""
        return f"written:{self.number}"


def read_lines(data: Path, name: str) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file of the data folder.

    Raises:
        InputError: the file is not there; the message names it and the option that says where the data are.
    """
    try:
        with (data / name).open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except OSError as error:
        raise _unreadable(name, error) from None


def _read_csv(data: Path, name: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file of the data folder; raises as `read_lines`."""
    try:
        with (data / name).open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(
        f"The data file {name} cannot be read ({error.strerror}). Pass the folder of the public data sets with "
        "--data DIR."
    )


def read_summaries(data: Path) -> list[Rated]:
    """SummEval: 1,600 summaries; the rating is the mean of four expert ratings (1-5); a document is a cluster."""
    sources = {d["doc_index"]: d["source"] for d in read_lines(data, "summeval/documents.jsonl")}
    return [
        Rated(
            cluster=f"summeval:{row['doc_index']}",
            side=side_of_number(row["doc_index"]),
            task=Task.SUMMARY,
            context=sources[row["doc_index"]],
            response=row["summary"],
            rating=sum(row[a] for a in SUMMARY_ASPECTS) / len(SUMMARY_ASPECTS),
            system=row["system"],
            cased=row["summary_truecased"],
        )
        for row in read_lines(data, "summeval/summaries.jsonl")
    ]


def read_dialogues(data: Path) -> list[Rated]:
    """TopicalChat: 360 replies to 60 dialogues with the mean overall rating (1-5); a dialogue is a cluster."""
    return [
        Rated(
            cluster=f"topicalchat:{row['context_index']}",
            side=side_of_number(row["context_index"]),
            task=Task.DIALOGUE,
            context="\n".join(line.strip() for line in row["dialog_history"].strip().split("\n")),
            response=row["response"].strip(),
            rating=row["overall"],
            system=row["system"],
        )
        for row in read_lines(data, "topicalchat/responses.jsonl")
    ]


def read_pairs(data: Path) -> list[Pair]:
    """Human-labelled pairs: PandaLM (three votes each) and LLMBar's processed other sets (one label each)."""
    pairs = [
        Pair(
            pair_id=f"pandalm-{row['id']}",
            subset="PandaLM",
            side=side_of_prompt(row["prompt"]),
            prompt=row["prompt"],
            material=row["input"] or "",
            response_a=_text(row["response_a"]),
            response_b=_text(row["response_b"]),
            votes=_votes([row[f"annotator{i}"] for i in (1, 2, 3)]),
            human=row["label"],
        )
        for row in read_lines(data, "pandalm/pairs.jsonl")
    ]
    return pairs + [
        Pair(
            pair_id=row["id"],
            subset=row["subset"],
            side=side_of_prompt(row["prompt"]),
            prompt=row["prompt"],
            material="",
            response_a=row["response_a"],
            response_b=row["response_b"],
            votes=_votes([row["label"]]),
            human=row["label"],
        )
        for row in read_lines(data, "llmbar/processed_other_sets.jsonl")
    ]


def _text(value: object) -> str:
    """A response as text: PandaLM's file has a few answers "False" and "True" as JSON booleans."""
    return value if isinstance(value, str) else str(value)


def _votes(given: Sequence[str]) -> tuple[float, float, float]:
    a, b, tie = (given.count(name) / len(given) for name in ("a", "b", "tie"))
    return a, b, tie


def read_recorded_pairs(data: Path, judge: str) -> list[Pair]:
    """MT-Bench answers of two models with one judge's recorded verdict in both orders, where the two agree.

    A pair whose orders disagree says more about the judge's order bias than about the answers: it is left out.
    """
    questions = {q["question_id"]: q["turn1"] for q in read_lines(data, "mtbench/questions.jsonl")}
    answers = {(a["question_id"], a["model"]): a["answer1"] for a in read_lines(data, "mtbench/answers_31models.jsonl")}
    verdicts: dict[tuple[int, str, str], str] = {}
    for row in _read_csv(data, "mtbench/recorded_verdicts_both_orders.csv"):
        if row["judge"] == judge:
            key = (int(row["question_id"]), row["model_shown_first"], row["model_shown_second"])
            verdicts[key] = row["verdict"]
    mirrored = {"A": "B", "B": "A", "C": "C"}
    pairs = []
    for (number, first, second), verdict in sorted(verdicts.items()):
        other = verdicts.get((number, second, first))
        answered = answers.get((number, first)) and answers.get((number, second))
        if first < second and answered and verdict in mirrored and other == mirrored[verdict]:
            label = {"A": "a", "B": "b", "C": "tie"}[verdict]
            pairs.append(
                Pair(
                    pair_id=f"mtbench-{number}-{first}-{second}",
                    subset="MT-Bench verdicts",
                    side=side_of_prompt(questions[number]),
                    prompt=questions[number],
                    material="",
                    response_a=answers[number, first],
                    response_b=answers[number, second],
                    votes=_votes([label]),
                    human=label,
                )
            )
    return pairs


def read_solutions(data: Path) -> list[Solution]:
    """GSM8K: 5,276 model solutions of 1,319 questions with a correct flag; the question is the cluster."""
    return [
        Solution(
            number=int(row["id"].split("-")[0]),
            side=side_of_question(int(row["id"].split("-")[0])),
            question=row["question"],
            reference=row["reference"],
            response=row["response"],
            correct=row["correct"],
        )
        for row in read_lines(data, "gsm8k/model_solutions.jsonl")
    ]


def read_rule_prompts(data: Path) -> list[RulePrompt]:
    """IFEval: 541 prompts with one to three checkable rules each."""
    return [
        RulePrompt(
            key=row["key"],
            side=side_of_prompt(row["prompt"]),
            prompt=row["prompt"],
            rules=tuple(
                (name, {k: v for k, v in kwargs.items() if v is not None})
                for name, kwargs in zip(row["instruction_id_list"], row["kwargs"], strict=True)
            ),
        )
        for row in read_lines(data, "ifeval/input_data.jsonl")
    ]


def read_written(path: Path) -> list[WrittenDialogue]:
    """The dialogues written for training.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [
            WrittenDialogue(
                number=row["id"],
                side=side_of_number(row["id"]),
                turns=tuple(row["turns"]),
                good=tuple(row["good"]),
                weak=tuple(row["weak"]),
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"The dialogues {path.name} cannot be read ({error}). Restore them from the project."
        ) from None


def llmbar_prompts(data: Path) -> frozenset[str]:
    """The prompts of LLMBar's own pairs, which are never trained on: only to keep them out."""
    return frozenset(same_text(row["prompt"]) for row in read_lines(data, "llmbar/pairs.jsonl"))


def related_dialogues(dialogues: Sequence[Rated]) -> dict[str, frozenset[Side]]:
    """For each dialogue the sides of all dialogues that open with the same line.

    TopicalChat samples several points of one conversation, so a later point repeats the earlier one and gives
    its reply away; such a dialogue may not be trained on while its sibling is held out.
    """
    sides: dict[str, set[Side]] = {}
    for one in dialogues:
        sides.setdefault(_opening(one), set()).add(one.side)
    return {one.cluster: frozenset(sides[_opening(one)]) for one in dialogues}


def _opening(one: Rated) -> str:
    return same_text(one.context.split("\n", 1)[0])


def without_straddlers(pairs: Sequence[Pair], every: Sequence[Pair], forbidden: frozenset[str]) -> list[Pair]:
    """The pairs whose prompt (and text it is about) stands on one side only and in no forbidden set.

    Prompts are told apart by md5, so two that differ only in case or white space could land on two sides, and one
    text can be the material of two prompts.

    Args:
        pairs: the pairs to choose from.
        every: all pairs, their sides as they are to be told apart.
        forbidden: normalised texts (`same_text`) that may not occur.
    """
    sides: dict[str, set[Side]] = {}
    for pair in every:
        for text in filter(None, (same_text(pair.prompt), same_text(pair.material))):
            sides.setdefault(text, set()).add(pair.side)

    def alone(pair: Pair) -> bool:
        texts = [t for t in (same_text(pair.prompt), same_text(pair.material)) if t]
        return all(len(sides.get(t, set())) <= 1 for t in texts) and not forbidden.intersection(texts)

    return [pair for pair in pairs if alone(pair)]
