"""Drafts of the base model: fluent, weak texts that widen the range of quality the judge is trained on.

`python -m engine.training drafts` samples them into `assets/training/drafts.jsonl`, which stays on the machine: the
texts are about the data's articles, and sampling depends on the machine in the last bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import InputError
from engine.core.schema import Task
from engine.inference.chat import encode_text, render_ids
from engine.inference.loading import LoadedModel
from engine.training.heldout import Side
from engine.training.sources import Rated, RulePrompt, WrittenDialogue

ASK = {
    Task.SUMMARY: "Summarize the following article in two or three sentences.\n\n{context}",
    Task.DIALOGUE: "Here is a conversation between two people. Write only the next line.\n\n{context}",
    Task.INSTRUCTION: "{context}",
}
NEW_TOKENS = {Task.SUMMARY: 90, Task.DIALOGUE: 45, Task.INSTRUCTION: 110}
TURN_TOKENS = 40
TEMPERATURE, TOP_P = 0.8, 0.95
TURNS_A_SPOT = 2


@dataclass(frozen=True)
class DraftJob:
    """One text to sample.

    Attributes:
        key: names what it answers.
        prompt: text shown to the base model.
        new_tokens: its longest length.
        next_line: go on with the prompt as plain text up to the end of the line, instead of answering it.
    """

    key: str
    prompt: str
    new_tokens: int
    next_line: bool = False


def draft_jobs(
    summaries: Sequence[Rated],
    dialogues: Sequence[Rated],
    rules: Sequence[RulePrompt],
    written: Sequence[WrittenDialogue],
) -> list[DraftJob]:
    """Drafts to write: a summary a document, replies at each point of a dialogue, an answer a rule prompt.

    Documents and dialogues of the test side are left out: nothing is made from them.
    """
    jobs: dict[str, DraftJob] = {}
    for one in (*summaries, *dialogues):
        if one.side is not Side.TEST and one.cluster not in jobs:
            prompt = ASK[one.task].format(context=one.context)
            jobs[one.cluster] = DraftJob(one.cluster, prompt, NEW_TOKENS[one.task])
            if one.task is Task.DIALOGUE:
                turns = one.context.split("\n")
                jobs.update({j.key: j for n in range(1, len(turns) + 1) for j in _turns(one.cluster, turns[:n])})
    for rule in rules:
        jobs[f"ifeval:{rule.key}"] = DraftJob(f"ifeval:{rule.key}", rule.prompt, NEW_TOKENS[Task.INSTRUCTION])
    for dialogue in written:
        names = [("A", "B")[(len(dialogue.turns) - i) % 2] for i in range(len(dialogue.turns))]
        lines = [f"{name}: {turn}" for name, turn in zip(names, dialogue.turns, strict=True)]
        jobs.update({j.key: j for j in _turns(dialogue.cluster, lines, "A:")})
    return list(jobs.values())


def _turns(cluster: str, turns: Sequence[str], start: str = "") -> list[DraftJob]:
    prompt = "\n".join(turns[-8:]) + "\n" + start
    return [DraftJob(turn_key(cluster, len(turns), k), prompt, TURN_TOKENS, True) for k in range(TURNS_A_SPOT)]


def turn_key(cluster: str, spot: int, k: int) -> str:
    """The key of the k-th draft of what follows the first `spot` turns of a dialogue."""
    return f"{cluster}:{spot}:{k}"


def write_drafts(
    loaded: LoadedModel,
    jobs: Sequence[DraftJob],
    path: Path,
    *,
    batch: int = 192,
    seed: int = 0,
    report: Callable[[int, int], None] | None = None,
) -> None:
    """Sample the drafts that the file lacks and write them all, one JSON object a line (`key`, `text`)."""
    import torch

    torch.manual_seed(seed)
    found: dict[str, str] = read_drafts(path) if path.is_file() else {}
    order = sorted((j for j in jobs if j.key not in found), key=lambda j: (j.new_tokens, len(j.prompt)))
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        texts = _sample(loaded, [_ids(loaded.tokenizer, j) for j in part], max(j.new_tokens for j in part))
        for job, text in zip(part, texts, strict=True):
            found[job.key] = text.split("\n")[0].strip() if job.next_line else text
        if report:
            report(min(start + batch, len(order)), len(order))
    lines = [json.dumps({"key": j.key, "text": found[j.key]}, ensure_ascii=False) for j in jobs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_drafts(path: Path) -> dict[str, str]:
    """Key to draft.

    Raises:
        InputError: the file is missing or not as `write_drafts` writes it.
    """
    try:
        rows: Iterator[dict[str, Any]] = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return {row["key"]: row["text"] for row in rows}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"The drafts {path.name} cannot be read ({error}). Make them with `python -m engine.training drafts`."
        ) from None


def turn_drafts(drafts: Mapping[str, str], cluster: str, spot: int) -> list[str]:
    """The drafts at one point of a dialogue that have at least two words."""
    found = [drafts.get(turn_key(cluster, spot, k), "") for k in range(TURNS_A_SPOT)]
    return [text for text in found if len(text.split()) > 1]


def _ids(tokenizer: Any, job: DraftJob) -> list[int]:
    if job.next_line:
        return encode_text(tokenizer, job.prompt)
    return render_ids(tokenizer, "", job.prompt)


def _sample(loaded: LoadedModel, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[str]:
    """Nucleus samples for a batch; left padding with a mask, as `generate` needs it."""
    import torch

    longest = max(len(p) for p in prompts)
    pad = loaded.tokenizer.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(p)) + list(p) for p in prompts], device=loaded.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=loaded.device)
    with torch.inference_mode():
        out = loaded.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=new_tokens,
            do_sample=True,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            top_k=0,
            pad_token_id=pad,
        )
    return [str(t).strip() for t in loaded.tokenizer.batch_decode(out[:, longest:], skip_special_tokens=True)]
