"""One tiny file of each known format, written by hand; `FILES[name]` is (filename, content)."""

import json


def lines(rows: list[dict]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def listed(rows: object) -> bytes:
    return json.dumps(rows).encode()


def talk(*texts: str) -> list[dict]:
    return [
        {"role": role, "content": text}
        for role, text in zip(["user", "assistant"] * (len(texts) // 2 + 1), texts, strict=False)
    ]


def vote(winner: str, judge: str, turn: int = 1, question: int = 81) -> dict:
    return {
        "question_id": question,
        "model_a": "ant",
        "model_b": "bee",
        "winner": winner,
        "judge": judge,
        "conversation_a": talk("Name a fruit.", "Apple.", "And a nut?", "Walnut."),
        "conversation_b": talk("Name a fruit.", "A pear", "And a nut?", "Peanut, a legume."),
        "turn": turn,
    }


MT_BENCH = [
    vote("model_a", "expert_1"),
    vote("tie", "author_2"),
    vote("model_b", "expert_1", turn=2),
    vote("tie (inconsistent)", "gpt4_pair"),
    vote("model_b", "gpt4_pair", turn=2),
]


def battle(winner: str, question: str, **more: object) -> dict:
    return {
        "question_id": question,
        "model_a": "ant",
        "model_b": "bee",
        "winner": winner,
        "judge": "arena_user_7",
        "conversation_a": talk(f"Ask {question}", "Short."),
        "conversation_b": talk(f"Ask {question}", "Rather long."),
        "turn": 1,
        "anony": True,
        "language": "English",
        "tstamp": 1683000000.5,
        **more,
    }


ARENA = [battle("model_a", "q1"), battle("tie (bothbad)", "q2"), battle("tie", "q3"), battle("model_b", "q4")]


def parts(text: str) -> list[dict]:
    return [{"type": "text", "text": text, "image": None, "mimeType": None}]


ARENA_NEW = [
    {
        "id": "0197",
        "model_a": "ant",
        "model_b": "bee",
        "winner": "both_bad",
        "evaluation_session_id": "s1",
        "evaluation_order": 1,
        "conversation_a": [
            {"role": "user", "content": parts("Hi $5 and $7")},
            {"role": "assistant", "content": parts("Hello")},
        ],
        "conversation_b": [
            {"role": "user", "content": parts("Hi $5 and $7")},
            {"role": "assistant", "content": parts("<b>Hey</b>")},
        ],
        "language": "en",
        "timestamp": "2025-05-01 10:00:00",
    }
]
ARENA_RESULTS = [
    {"model_a": "ant", "model_b": "bee", "winner": w, "anony": True, "language": "English", "tstamp": 1.0}
    for w in ("model_a", "model_b", "tie", "tie (bothbad)")
]
ARENA_55K = [
    {
        "id": 30192,
        "model_a": "ant",
        "model_b": "bee",
        "prompt": json.dumps(["First?", "Second?"]),
        "response_a": json.dumps(["one", "two"]),
        "response_b": json.dumps(["eins", "zwei"]),
        "winner_model_a": 0,
        "winner_model_b": 0,
        "winner_tie": 1,
    }
]

SINGLE = [
    {
        "question_id": 81,
        "model": model,
        "judge": ["gpt-4", "single-v1" if turn == 1 else "single-v1-multi-turn"],
        "user_prompt": "[Instruction] ...",
        "judgment": f"Rating: [[{score}]]" if score > 0 else "I cannot rate this.",
        "score": score,
        "turn": turn,
        "tstamp": 1687222552.0,
    }
    for model, turn, score in (("ant", 1, 8), ("ant", 2, 7.5), ("bee", 1, -1), ("bee", 2, 3))
]
PAIR = [
    {
        "question_id": 81,
        "model_1": "ant",
        "model_2": "bee",
        "g1_winner": first,
        "g2_winner": second,
        "judge": ["gpt-4", "pair-v2"],
        "g1_user_prompt": "...",
        "g1_judgment": "[[A]]",
        "g2_user_prompt": "...",
        "g2_judgment": "[[A]]",
        "turn": turn,
        "tstamp": 1687222552.0,
    }
    for turn, first, second in ((1, "model_1", "model_2"), (2, "tie", "error"))
]
ANSWERS = [
    {
        "question_id": 81,
        "answer_id": f"id-{model}",
        "model_id": model,
        "choices": [{"index": 0, "turns": [f"{model} one", f"{model} two"]}],
        "tstamp": 1.0,
    }
    for model in ("ant", "bee")
]
QUESTIONS = [
    {"question_id": 81, "category": "writing", "turns": ["Name a fruit.", "And a nut?"], "reference": ["apple", "nut"]}
]

OUTPUTS = [
    {"dataset": "helpful_base", "instruction": f"Do {i}.", "output": f"Done {i}", "generator": "ant"} for i in (1, 2)
]
ANNOTATIONS = [
    {
        "instruction": f"Do {i}.",
        "output_1": f"base {i}",
        "generator_1": "base",
        "output_2": f"new {i}",
        "generator_2": "ant",
        "dataset": "helpful_base",
        "annotator": "weighted_gpt4",
        "preference": preference,
        "raw_completion": "m",
    }
    for i, preference in enumerate((1.0, 2.0, 1.5, 0, None, 1.9821), start=1)
]


def rating(flipped: bool, score: float, label: str) -> dict:
    return {"is_flipped": flipped, "score": score, "rating_label": label, "rationale": "because"}


COMPARATOR = {
    "metadata": {"source_path": "x", "custom_fields_schema": []},
    "models": [{"name": "ant"}, {"name": "bee"}],
    "examples": [
        {
            "input_text": "What is 2+2?",
            "tags": ["Math"],
            "output_text_a": "4",
            "output_text_b": "5",
            "score": 1.25,
            "individual_rater_scores": [
                rating(False, 1.5, "A is much better"),
                rating(True, 1.0, "B is better"),
            ],
            "custom_fields": {"lang": "en"},
        },
        {
            "input_text": "Say hi.",
            "tags": [],
            "output_text_a": "hi",
            "output_text_b": "hello",
            "score": 0.0,
            "individual_rater_scores": [rating(False, 0.5, "A is slightly better"), rating(True, -0.5, "A is better")],
            "custom_fields": {},
        },
    ],
}


def graded(test: int, provider: str, output: object, score: float, failure: int = 0) -> dict:
    return {
        "promptIdx": 0,
        "testIdx": test,
        "testCase": {"vars": {"x": str(test)}, "assert": [{"type": "llm-rubric", "value": "polite"}]},
        "promptId": "abc",
        "provider": {"id": f"openai:{provider}", "label": ""},
        "prompt": {"raw": f"Greet {test}", "label": "Greet {{x}}"},
        "vars": {"x": str(test)},
        "response": {"output": output} if failure != 2 else {},
        "error": "503 from server" if failure == 2 else None,
        "success": score >= 0.5 and failure == 0,
        "score": score,
        "failureReason": failure,
        "latencyMs": 12,
        "namedScores": {},
        "gradingResult": None
        if failure == 2
        else {
            "pass": score >= 0.5,
            "score": score,
            "reason": "ok",
            "componentResults": [
                {"pass": True, "score": 1, "reason": "has x", "assertion": {"type": "contains", "value": "x"}},
                {"pass": score >= 0.5, "score": score / 2, "reason": "polite", "assertion": {"type": "llm-rubric"}},
            ],
        },
    }


PROMPTFOO = {
    "evalId": "eval-1",
    "results": {
        "version": 3,
        "timestamp": "2026-01-01T00:00:00Z",
        "prompts": [],
        "results": [
            graded(0, "ant", "Hello", 1.0),
            graded(0, "bee", {"text": "Hey"}, 0.25, 1),
            graded(1, "ant", None, 0, 2),
        ],
        "stats": {},
    },
    "config": {},
    "shareableUrl": None,
}

LM_EVAL = [
    {
        "doc_id": doc,
        "doc": {"question": f"{doc}+1?"},
        "target": f"#### {doc + 1}",
        "arguments": {"gen_args_0": {"arg_0": f"Question: {doc}+1?\nAnswer:", "arg_1": {"until": ["Q"]}}},
        "resps": [[f"It is {doc + 1}."]],
        "filtered_resps": [str(doc + 1) if name == "flexible-extract" else "[invalid]"],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": "a",
        "prompt_hash": "b",
        "target_hash": "c",
        "exact_match": 1.0 if name == "flexible-extract" else 0.0,
    }
    for doc in (0, 1)
    for name in ("strict-match", "flexible-extract")
]

VERIFY = [
    {
        "question_id": "v1",
        "completion_id": f"v1-{i}",
        "question": "What is 6 x 2?",
        "answer": "12",
        "completion": f"It is {value}.",
        "completion_model": "ant",
        "gold_correct": value == 12,
        "answer_type": "Numeric",
        "answer_subtype": "Integer",
        "source": "x",
    }
    for i, value in enumerate((12, 6))
]

REWARD = [
    {
        "prompt": f"Ask {i}",
        "chosen": "good",
        "chosen_model": "ant",
        "rejected": "bad",
        "rejected_model": "bee",
        "subset": "chat",
        "id": i,
    }
    for i in (30, 31)
]
REWARD_2 = [
    {
        "id": "7",
        "prompt": "Ask",
        "chosen": ["good"],
        "rejected": ["bad", "worse", "worst"],
        "num_correct": 1,
        "num_incorrect": 3,
        "total_completions": 4,
        "models": ["ant", "bee", "cat", "dog"],
        "subset": "Focus",
    },
    {
        "id": "8",
        "prompt": "Name a colour",
        "chosen": ["red", "blue"],
        "rejected": ["dog"],
        "num_correct": 2,
        "num_incorrect": 1,
        "total_completions": 3,
        "models": ["ant", "bee", "cat"],
        "subset": "Ties",
    },
]
JUDGEBENCH = [
    {
        "pair_id": f"p{i}",
        "original_id": "o",
        "source": "mmlu-pro-math",
        "question": "Pick one.",
        "response_model": "ant",
        "response_A": "(A)",
        "response_B": "(B)",
        "label": label,
    }
    for i, label in enumerate(("A>B", "B>A"))
]
JUDGEBENCH_JUDGED = [
    {
        **JUDGEBENCH[0],
        "judge_name": "arena_hard",
        "judgments": [
            {"judgment": {"response": "says A"}, "decision": "A>B"},
            {"judgment": {"response": "says A again"}, "decision": "A>B"},
        ],
    },
    {**JUDGEBENCH[1], "judge_name": "arena_hard", "judgments": [{"judgment": None, "decision": "A=B"}, None]},
]
LLMBAR = [
    {"input": "List two fruits.", "output_1": "Apple, pear", "output_2": "Apple", "label": 1},
    {"input": "Say no.", "output_1": "Yes", "output_2": "No", "label": 2},
]
PANDALM = [
    {
        "idx": i,
        "motivation_app": "Grammarly",
        "cmp_key": "opt-7b_pythia-6.9b",
        "instruction": "Shorten.",
        "input": "very very long",
        "response1": "long",
        "response2": "very long",
        "annotator1": votes[0],
        "annotator2": votes[1],
        "annotator3": votes[2],
    }
    for i, votes in enumerate(((1, 1, 2), (0, 0, 1), (0, 1, 2)))
]
PANDALM_JUDGED = [{**row, "gpt_result": r} for row, r in zip(PANDALM, ("1", "Tie", "garbage"), strict=True)]

SUMMEVAL = [
    {
        "id": "doc-1",
        "decoded": f"Summary {m}",
        "expert_annotations": [
            {"coherence": 2, "consistency": 5, "fluency": 5, "relevance": 4},
            {"coherence": 4, "consistency": 5, "fluency": 5, "relevance": 4},
        ],
        "turker_annotations": [{"coherence": 1, "consistency": 1, "fluency": 1, "relevance": 1}],
        "references": ["Reference one", "Reference two"],
        "model_id": m,
        "text": "An article.",
    }
    for m in ("M0", "M1")
]
GEVAL = [
    {
        "doc_id": "doc-1",
        "system_id": m,
        "source": "An article.",
        "reference": "Reference one",
        "system_output": f"Summary {m}",
        "scores": {"coherence": 3.0, "consistency": 5.0, "fluency": 5.0, "relevance": 4.0},
    }
    for m in ("M0", "M1")
]
DOCUMENTS = [
    {
        "id": "doc-1",
        "text": "An article.",
        "machine_summaries": ["one", "two"],
        "human_summaries": ["Reference one"],
        "coherence": [3.0, 1.0],
        "consistency": [5.0, 1.0],
        "fluency": [5.0, 1.0],
        "relevance": [4.0, 1.0],
    }
]

FILES: dict[str, tuple[str, bytes]] = {
    "mt-bench-human": ("human.jsonl", lines(MT_BENCH)),
    "arena": ("battles.json", listed(ARENA)),
    "arena-55k": ("train.jsonl", lines(ARENA_55K)),
    "fastchat-single": ("gpt-4_single.jsonl", lines(SINGLE)),
    "fastchat-pair": ("gpt-4_pair.jsonl", lines(PAIR)),
    "fastchat-answers": ("ant.jsonl", lines(ANSWERS)),
    "alpacaeval-outputs": ("model_outputs.json", listed(OUTPUTS)),
    "alpacaeval-annotations": ("annotations.json", listed(ANNOTATIONS)),
    "llm-comparator": ("comparison.json", listed(COMPARATOR)),
    "promptfoo": ("results.json", listed(PROMPTFOO)),
    "lm-eval": ("samples_gsm8k_2025-01-01T00-00-00.000000.jsonl", lines(LM_EVAL)),
    "verifybench": ("verify_bench.jsonl", lines(VERIFY)),
    "rewardbench": ("filtered.jsonl", lines(REWARD)),
    "rewardbench-2": ("rb2.jsonl", lines(REWARD_2)),
    "judgebench": ("judgebench.jsonl", lines(JUDGEBENCH)),
    "llmbar": ("dataset.json", listed(LLMBAR)),
    "pandalm": ("testset-v1.json", listed(PANDALM)),
    "summeval": ("model_annotations.aligned.paired.jsonl", lines(SUMMEVAL)),
    "summeval-geval": ("summeval.json", listed(GEVAL)),
    "summeval-documents": ("test.jsonl", lines(DOCUMENTS)),
}
OTHERS: dict[str, tuple[str, bytes]] = {
    "arena, new columns": ("battles.jsonl", lines(ARENA_NEW)),
    "arena, results only": ("battles.json", listed(ARENA_RESULTS)),
    "judgebench, judged": ("judged.jsonl", lines(JUDGEBENCH_JUDGED)),
    "pandalm, judged": ("gpt.json", listed(PANDALM_JUDGED)),
}
"""Other columns of formats above."""
