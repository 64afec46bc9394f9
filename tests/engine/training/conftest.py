"""A tiny random model with the bundled tokenizer, and a tiny copy of the public data's formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.inference.loading import LoadedModel
from engine.training.heldout import Side, side_of_prompt
from engine.training.sources import DEFAULT_DATA

ASSETS = Path(__file__).resolve().parents[3] / "assets"


@pytest.fixture(scope="session")
def drafts() -> None:
    """Skip where the base model's drafts are absent: they are about the data's articles and not in the project."""
    if not (ASSETS / "training" / "drafts.jsonl").is_file():
        pytest.skip("the base model's drafts are not sampled; run `python -m engine.training drafts` (a GPU helps)")


@pytest.fixture(scope="session")
def data(drafts: None) -> Path:
    if not (DEFAULT_DATA / "summeval").is_dir():
        pytest.skip("the public data sets (../shared/data) are absent")
    return DEFAULT_DATA


@pytest.fixture(scope="session")
def tokenizer():
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(ASSETS / "judge", local_files_only=True)


def tiny_llama(vocabulary: int, seed: int = 0):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).float()


@pytest.fixture(scope="session")
def tiny(tokenizer) -> LoadedModel:
    model = tiny_llama(len(tokenizer)).eval()
    return LoadedModel("tiny", model, tokenizer, "cpu", "float32", "tiny-float32", 4096)


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def toy_data(tmp_path: Path) -> Path:
    """Two documents, dialogues, prompts and questions on the test side, in the formats of the public data."""
    root = tmp_path / "data"
    aspects = ("coherence", "consistency", "fluency", "relevance")
    text = "The council met on Monday, and the mayor spoke for an hour about the new bridge in Leeds."
    _write(root / "summeval/documents.jsonl", [{"doc_index": i, "source": f"{text} Part {i}."} for i in (0, 5)])
    _write(
        root / "summeval/summaries.jsonl",
        [
            {
                "doc_index": i,
                "summary": f"the mayor spoke {s}",
                "summary_truecased": f"The mayor spoke {s} .",
                "system": s,
            }
            | dict.fromkeys(aspects, 1.5 + 1.1 * k)
            for i in (0, 5)
            for k, s in enumerate(("M1", "M2", "M3"))
        ],
    )
    _write(
        root / "topicalchat/responses.jsonl",
        [
            {
                "context_index": i,
                "dialog_history": f"do you like films {i} ?\n i do , do you ?\n",
                "response": f"yes , very much {s} .",
                "overall": 1.3 + 1.2 * k,
                "system": s,
            }
            for i in (0, 5)
            for k, s in enumerate(("A", "B", "C"))
        ],
    )
    prompts = [f"Name river number {i}." for i in range(60)]
    test_prompts = [p for p in prompts if side_of_prompt(p) is Side.TEST][:2]
    _write(
        root / "pandalm/pairs.jsonl",
        [
            {"id": k, "prompt": p, "input": "", "response_a": "The Nile.", "response_b": "x", "label": label}
            | {f"annotator{j}": label for j in (1, 2, 3)}
            for k, (p, label) in enumerate(zip([*test_prompts, test_prompts[0]], ["a", "b", "tie"], strict=True))
        ],
    )
    _write(root / "llmbar/processed_other_sets.jsonl", [])
    _write(root / "mtbench/questions.jsonl", [{"question_id": 1, "category": "math", "turn1": "What is 1+1?"}])
    _write(
        root / "mtbench/answers_31models.jsonl",
        [{"question_id": 1, "model": model, "answer1": answer} for model, answer in (("m1", "2"), ("m2", "3"))],
    )
    (root / "mtbench/recorded_verdicts_both_orders.csv").write_text(
        "judge,question_id,model_shown_first,model_shown_second,verdict\n", encoding="utf-8"
    )
    _write(
        root / "llmbar/pairs.jsonl",
        [
            {"id": f"{s}-0", "subset": s, "prompt": s, "response_a": "yes", "response_b": "no", "label": "a"}
            for s in ("Natural", "Manual")
        ],
    )
    _write(
        root / "gsm8k/model_solutions.jsonl",
        [
            {"id": f"{n}-6b", "question": "1+1?", "reference": "2", "response": f"A: {r}", "correct": r == 2}
            for n in (1000, 1001)
            for r in (2, 3)
        ],
    )
    _write(
        root / "ifeval/input_data.jsonl",
        [{"key": 1000, "prompt": "Say hello.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}],
    )
    return root
