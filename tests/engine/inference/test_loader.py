"""Loading the shapes the papers name, and clear answers for what cannot be loaded."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.core.errors import InputError, ModelError
from engine.core.settings import get_settings
from engine.inference.chat import plain_ids
from engine.inference.loading import load_model
from engine.inference.scoring import label_probabilities, label_tokens

CAUSAL = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "gpt2"]


@pytest.mark.parametrize("shape", CAUSAL)
def test_causal_models_load_and_score_alike_in_a_batch_and_alone(tiny, shape):
    loaded = tiny(shape)
    assert (loaded.kind, loaded.dtype, loaded.max_tokens) == ("causal", "float32", 512)
    prompts = [plain_ids(loaded.tokenizer, "", t) for t in ("a", "rate this longer response, past any window", "rate")]
    labels = label_tokens(loaded.tokenizer, list("12345"))
    together = label_probabilities(loaded, prompts, labels)
    for prompt, row in zip(prompts, together, strict=True):
        with torch.no_grad():
            p = loaded.model(input_ids=torch.tensor([prompt])).logits[0, -1].softmax(-1)
        np.testing.assert_allclose(row, [float(p[list(ids)].sum()) for ids in labels.ids], atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "kind", "pooling"),
    [
        ("t5", "encoder-decoder", "mean"),
        ("reward", "reward", "last"),
        ("bert", "encoder", "mean"),
        ("qwen3-embedding", "encoder", "last"),
    ],
)
def test_other_kinds_are_told_apart(tiny, shape, kind, pooling):
    loaded = tiny(shape)
    assert (loaded.kind, loaded.pooling, loaded.max_tokens) == (kind, pooling, 512)


def load(folder, **changes):
    return load_model(f"path:{folder}", dataclasses.replace(get_settings(), device="cpu", **changes))


def test_the_fingerprint_follows_the_weights_and_not_the_place(tiny_folders, tmp_path, save, tiny):
    assert load(save(tmp_path / "copy", "llama")).fingerprint == tiny("llama").fingerprint
    other = save(tmp_path / "other", "llama")
    weights = load_file(other / "model.safetensors")
    save_file({k: v + 0.01 for k, v in weights.items()}, other / "model.safetensors", metadata={"format": "pt"})
    assert load(other).fingerprint != tiny("llama").fingerprint


def test_a_sentence_encoder_is_pooled_as_its_folder_says(tmp_path, save):
    folder = save(tmp_path / "bge", "bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}), encoding="utf-8")
    assert load(folder).pooling == "cls"


def test_another_architecture_is_named_with_what_is_supported(tmp_path, save):
    with pytest.raises(ModelError, match=r"BertForTokenClassification, which is not supported.*Llama.*T5.*reward"):
        load(save(tmp_path / "m", "tagger"))


def test_a_model_type_nobody_knows_is_refused_without_running_its_code(tmp_path, save):
    folder = save(tmp_path / "m", "llama")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {
        "model_type": "own_thing",
        "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "evil.py").write_text("raise SystemExit('code of the repository ran')", encoding="utf-8")
    with pytest.raises(ModelError, match="without running code of its own"):
        load(folder)


def test_a_model_that_looks_both_ways_is_no_judge(tmp_path, save):
    with pytest.raises(ModelError, match="looks at the text in both directions"):
        load(save(tmp_path / "m", "bert-lm"))


def test_weights_that_would_be_random_are_refused(tmp_path, save):
    folder = save(tmp_path / "m", "reward")
    weights = load_file(folder / "model.safetensors")
    weights.pop("score.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 of the weights.*score\.weight"):
        load(folder)


def test_pickled_weights_are_refused_by_name(tmp_path, save):
    folder = save(tmp_path / "m", "llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"no safetensors weights, only pytorch_model\.bin.*save_pretrained"):
        load(folder)


def test_an_adapter_is_refused_with_the_remedy(tmp_path, save):
    folder = save(tmp_path / "m", "llama")
    (folder / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match="Merge it into its base"):
        load(folder)


def test_a_folder_without_config_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load(tmp_path)


def test_a_file_that_is_missing_or_cut_short_is_named(tmp_path, save):
    def broken(name, change):
        folder = save(tmp_path / name, "llama")
        change(folder)
        with pytest.raises(InputError) as refused:
            load(folder)
        return str(refused.value)

    def without_tokenizer(folder):
        for file in folder.glob("*token*"):
            file.unlink()

    def without_a_part(folder):
        (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
        index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")

    def cut(folder):
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])

    assert "tokenizer" in broken("a", without_tokenizer)
    assert "model-00002-of-00002.safetensors" in broken("b", without_a_part)
    assert "model.safetensors" in broken("c", cut)
    assert "config" in broken("d", lambda folder: (folder / "config.json").write_text("{", encoding="utf-8"))
    assert "tokenizer" in broken("e", lambda folder: (folder / "tokenizer.json").write_text("{", encoding="utf-8"))


@pytest.mark.parametrize("name", ["", "x" * 5_000, "/".join("x" * 3_000), "a\0b", "~nobody-of-this-name/x"])
def test_a_path_that_no_folder_can_have_is_the_user_s_to_mend(name, settings):
    with pytest.raises(InputError) as refused:
        load_model(f"path:{name}", dataclasses.replace(settings, device="cpu"))
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("spec", ["hf:just-a-name", "hf:../../etc/passwd", "ftp:x/y", "bundled:other", "hf:a/b/c"])
def test_bad_specs_are_refused(spec, settings):
    with pytest.raises(InputError, match="names no model"):
        load_model(spec, dataclasses.replace(settings, device="cpu"))


def test_settings_of_a_tokenizer_without_its_words_are_no_tokenizer(tmp_path, save):
    folder = save(tmp_path / "m", "qwen2")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text("{}", encoding="utf-8")
    (folder / "merges.txt").write_text("", encoding="utf-8")
    with pytest.raises(ModelError, match="tokenizer is missing"):
        load(folder)


def test_roots_are_read_from_the_environment(monkeypatch, tmp_path):
    import os

    monkeypatch.setenv("JUDGESCOPE_MODEL_ROOTS", os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b"), ""]))
    assert get_settings().model_roots == (tmp_path / "a", tmp_path / "b")
    monkeypatch.delenv("JUDGESCOPE_MODEL_ROOTS")
    assert get_settings().model_roots == ()


def test_models_outside_the_roots_are_refused_whatever_the_path_says(tmp_path, save):
    roots = (tmp_path / "models",)
    inside, outside = save(tmp_path / "models" / "good", "llama"), save(tmp_path / "elsewhere", "llama")
    assert load(inside, model_roots=roots).kind == "causal"
    (tmp_path / "models" / "link").symlink_to(outside)
    for folder in (
        outside,
        tmp_path / "models" / ".." / "elsewhere",
        tmp_path / "models" / "link",
        tmp_path / "models2",
    ):
        with pytest.raises(InputError, match="JUDGESCOPE_MODEL_ROOTS"):
            load(folder, model_roots=roots)
    assert load(tmp_path / "models" / "link", model_roots=()).kind == "causal"


def test_a_file_that_links_out_of_the_roots_is_refused(tmp_path, save):
    roots = (tmp_path / "models",)
    folder = save(tmp_path / "models" / "m", "llama")
    (folder / "model.safetensors").rename(tmp_path / "secret.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "secret.safetensors")
    with pytest.raises(InputError, match=r"holds model\.safetensors, which is outside"):
        load(folder, model_roots=roots)
