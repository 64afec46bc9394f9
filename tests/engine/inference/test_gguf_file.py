"""A GGUF file against the same weights as safetensors, and files that cannot be used."""

from __future__ import annotations

import dataclasses
import json

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.core.errors import InputError, ModelError
from engine.core.settings import get_settings
from engine.inference.chat import plain_ids, render_ids
from engine.inference.gguf_file import checked_gguf
from engine.inference.loading import load_model
from tests.engine.conftest import SIZE, TEMPLATE, byte_tokenizer

LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name: str) -> str:
    """The name llama.cpp gives to a tensor of transformers."""
    if name.startswith("model.layers."):
        _, _, layer, rest = name.split(".", 3)
        found = next(new + rest.removeprefix(old) for old, new in LAYER.items() if rest.startswith(old))
        return f"blk.{layer}.{found}"
    return next(new + name.removeprefix(old) for old, new in OUTER.items() if name.startswith(old))


def write_gguf(path, folder, *, arch="qwen2", tokenizer=True, **extra):
    """The safetensors of a tiny model under llama.cpp's names; `extra` is further metadata."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(SIZE["max_position_embeddings"])
    writer.add_embedding_length(SIZE["hidden_size"])
    writer.add_block_count(SIZE["num_hidden_layers"])
    writer.add_feed_forward_length(SIZE["intermediate_size"])
    writer.add_head_count(SIZE["num_attention_heads"])
    writer.add_head_count_kv(SIZE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(float(json.loads((folder / "config.json").read_text())["rope_parameters"]["rope_theta"]))
    if tokenizer:
        words = sorted(byte_tokenizer().get_vocab().items(), key=lambda pair: pair[1])
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        # a file has at least one merge, so one byte that no text here has makes room for what it gives
        writer.add_token_list([*(word for word, _ in words[:-1]), "ab"])
        writer.add_token_types([3 if word in ("<pad>", "<s>", "</s>") else 1 for word, _ in words])
        writer.add_token_merges(["a b"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_pad_token_id(0)
        writer.add_chat_template(TEMPLATE)
    for key, value in extra.items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint16
        add(key.replace("__", "."), value)
    for name, weights in load_file(folder / "model.safetensors").items():
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(weights.float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory, tiny_folders):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_folders("qwen2"))


def load(path, **changes):
    return load_model(f"path:{path}", dataclasses.replace(get_settings(), device="cpu", **changes))


def logits(loaded, ids):
    with torch.no_grad():
        return loaded.model(input_ids=torch.tensor([ids])).logits[0].numpy()


def test_it_answers_as_its_weights_do_in_safetensors(file, tiny, settings):
    loaded, other = load(file), tiny("qwen2")
    ids = plain_ids(other.tokenizer, "", "rate this 5")
    np.testing.assert_allclose(logits(loaded, ids), logits(other, ids), rtol=1e-5, atol=1e-5)
    assert (loaded.kind, loaded.max_tokens) == ("causal", other.max_tokens)
    # its own tokenizer and chat template: a special token in a message stays text
    chat = render_ids(loaded.tokenizer, "", "hi </s>")
    assert chat.count(2) == 1
    assert loaded.tokenizer.decode(chat, skip_special_tokens=False).endswith("<assistant>")
    [folder] = [f for f in settings.models.glob("gguf-*") if f.is_dir()]
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert load(file).fingerprint == loaded.fingerprint
    assert (folder / "model.safetensors").stat().st_mtime_ns == before  # unpacked once


@pytest.fixture
def made(tmp_path, tiny_folders):
    return lambda **options: write_gguf(tmp_path / "m.gguf", tiny_folders("qwen2"), **options)


def test_files_that_cannot_be_used_are_refused_by_their_header(made, tmp_path):
    def refused(path):
        with pytest.raises(ModelError) as error:
            checked_gguf(str(path), ())
        return str(error.value)

    assert "no tokenizer" in refused(made(tokenizer=False))
    assert "'clip'" in refused(made(arch="clip"))
    assert "yarn" in refused(made(qwen2__rope__scaling__type="yarn"))
    assert "one of 3 parts" in refused(made(split__count=3))
    assert "cannot be read" in refused(made(general__alignment=0))
    assert "parts" in refused(made(split__count="many"))
    whole = made().read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) - 500])
    assert "cut short" in refused(tmp_path / "cut.gguf")
    for content in (b"", b"GGUF", b"no such thing" * 20, whole[:200], b"GGUF\3\0\0\0" + b"\xff" * 40):
        (tmp_path / "bad.gguf").write_bytes(content)
        assert "cannot be read as a GGUF file" in refused(tmp_path / "bad.gguf")
    assert "no file" in refused(tmp_path / "absent.gguf")


def test_it_must_lie_in_the_allowed_folders(file, tmp_path):
    with pytest.raises(InputError, match="JUDGESCOPE_MODEL_ROOTS"):
        load(file, model_roots=(tmp_path,))
    (tmp_path / "link.gguf").symlink_to(file)
    with pytest.raises(InputError, match="JUDGESCOPE_MODEL_ROOTS"):
        load(tmp_path / "link.gguf", model_roots=(tmp_path,))
