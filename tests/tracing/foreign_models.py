"""Small models that we did not write, with random parameters and inputs of two rows.

`EXAMPLES` are tested in detail; `FAMILIES` are many Hugging Face architectures, each as small as
possible, with the targets for its own loss.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

Example = tuple[nn.Module, dict[str, Any]]

VOCABULARY, WIDTH, HEADS, INNER, LAYERS = 60, 32, 4, 64, 2
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def ids(rows: int, length: int) -> Tensor:
    return torch.randint(3, VOCABULARY, (rows, length))


def padding(lengths: list[int], longest: int) -> Tensor:
    return (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()


def torch_transformer() -> Example:
    model = nn.Transformer(
        WIDTH, HEADS, LAYERS, LAYERS, INNER, batch_first=True, norm_first=False, activation="gelu"
    )
    source, target = torch.randn(2, 9, WIDTH), torch.randn(2, 7, WIDTH)
    return model, {
        "src": source,
        "tgt": target,
        "tgt_mask": model.generate_square_subsequent_mask(7),
        "src_key_padding_mask": padding([9, 6], 9) == 0,
        "memory_key_padding_mask": padding([9, 6], 9) == 0,
    }


def torch_encoder() -> Example:
    """The layers that torch would run as one fused operator without the trace."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3)
    return encoder, {
        "src": torch.randn(4, 12, WIDTH),
        "src_key_padding_mask": padding([12, 5, 9, 12], 12) == 0,
    }


def bert() -> Example:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=32,
    )
    return transformers.BertModel(config), {
        "input_ids": ids(2, 9),
        "attention_mask": padding([9, 6], 9),
    }


def gpt2() -> Example:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=32,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids(2, 9), "use_cache": False}


def llama() -> Example:
    """Four query heads share two key heads."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    return transformers.LlamaForCausalLM(config), {"input_ids": ids(2, 9), "use_cache": False}


def t5() -> Example:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=8,
        d_ff=INNER,
        num_layers=LAYERS,
        num_heads=HEADS,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config), {
        "input_ids": ids(2, 9),
        "decoder_input_ids": ids(2, 6),
        "use_cache": False,
    }


def _encoder_decoder_sizes() -> dict[str, int]:
    sides = ("encoder", "decoder")
    return {
        "d_model": WIDTH,
        **{f"{side}_layers": LAYERS for side in sides},
        **{f"{side}_attention_heads": HEADS for side in sides},
        **{f"{side}_ffn_dim": INNER for side in sides},
    }


def marian() -> Example:
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=32,
        forced_eos_token_id=2,
        **_encoder_decoder_sizes(),
        **SPECIAL,
    )
    return transformers.MarianMTModel(config), {
        "input_ids": ids(2, 9),
        "attention_mask": padding([9, 6], 9),
        "decoder_input_ids": ids(2, 6),
        "use_cache": False,
    }


def vit() -> Example:
    config = transformers.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        image_size=24,
        patch_size=8,
    )
    return transformers.ViTModel(config), {"pixel_values": torch.randn(4, 3, 24, 24)}


def whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=16,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **_encoder_decoder_sizes(),
        **SPECIAL,
    )
    return transformers.WhisperForConditionalGeneration(config), {
        "input_features": torch.randn(2, 8, 24),
        "decoder_input_ids": ids(2, 6),
        "use_cache": False,
    }


EXAMPLES: dict[str, Callable[[], Example]] = {
    make.__name__: make
    for make in (torch_transformer, torch_encoder, bert, gpt2, llama, t5, marian, vit, whisper)
}


@dataclass(frozen=True)
class Family:
    """An architecture: how to build a model, and what its `forward` takes."""

    config: str
    task: str
    """Which `AutoModelFor…` makes it."""
    options: dict[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Common settings that its config refuses."""

    def make(self) -> nn.Module:
        """A model with two layers and few dimensions."""
        settings = {**_SIZES, **_TASK_SIZES[self.task], **self.options}
        settings = {name: value for name, value in settings.items() if name not in self.left_out}
        config = getattr(transformers, f"{self.config}Config")(**settings)
        model: nn.Module = getattr(transformers, f"AutoModelFor{self.task}").from_config(config)
        return model

    def inputs(self) -> dict[str, Any]:
        """The arguments of a forward pass."""
        if self.task == "ImageClassification":
            return {"pixel_values": torch.randn(2, 3, 16, 16)}
        if self.task == "CausalLM":
            return {"input_ids": ids(2, 7), "use_cache": False}
        padded = {"input_ids": ids(2, 7), "attention_mask": padding([7, 5], 7)}
        if self.task == "Seq2SeqLM":
            return padded | {"decoder_input_ids": ids(2, 5), "use_cache": False}
        return padded

    def targets(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The keyword argument with which a Hugging Face model computes its own loss."""
        names = {"CausalLM": "input_ids", "Seq2SeqLM": "decoder_input_ids"}
        name = names.get(self.task)
        return {"labels": torch.tensor([0, 2]) if name is None else inputs[name]}


_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_SIDES = ("encoder", "decoder")
_TASK_SIZES: dict[str, dict[str, Any]] = {
    "CausalLM": {},
    "SequenceClassification": {"num_labels": 3},
    "ImageClassification": {
        "num_labels": 3,
        "image_size": 16,
        "patch_size": 8,
        "num_channels": 3,
    },
    "Seq2SeqLM": {
        "d_model": 16,
        "d_ff": 32,
        "d_kv": 8,
        "num_layers": 2,
        "num_heads": 2,
        "decoder_start_token_id": 1,
        **{f"{side}_layers": 2 for side in _SIDES},
        **{f"{side}_attention_heads": 2 for side in _SIDES},
        **{f"{side}_ffn_dim": 32 for side in _SIDES},
    },
}
_SHARED_KEYS = {"num_key_value_heads": 1}
_HEADS_OF_8 = {**_SHARED_KEYS, "head_dim": 8}
_EXPERTS = {
    **_SHARED_KEYS,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
_GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}


def _decoder(config: str, *left_out: str, **options: Any) -> Family:
    return Family(config, "CausalLM", options, left_out)


def _encoder(config: str, *left_out: str, **options: Any) -> Family:
    return Family(config, "SequenceClassification", options, left_out)


_pair = partial(Family, task="Seq2SeqLM")


def _image(config: str, *left_out: str, **options: Any) -> Family:
    return Family(config, "ImageClassification", options, left_out)


FAMILIES: dict[str, Family] = {
    "gpt2": _decoder("GPT2", **_GPT),
    "gpt_neo": _decoder(
        "GPTNeo", num_layers=2, attention_types=[[["global", "local"], 1]], window_size=4
    ),
    "gpt_neox": _decoder("GPTNeoX", rotary_pct=0.5),
    "gptj": _decoder("GPTJ", **_GPT, rotary_dim=4),
    "codegen": _decoder("CodeGen", **{**_GPT, "n_head": 4}, num_attention_heads=4, rotary_dim=4),
    "opt": _decoder("OPT", ffn_dim=32, word_embed_proj_dim=16),
    "bloom": _decoder("Bloom", n_layer=2, n_head=2),
    "llama": _decoder("Llama", **_SHARED_KEYS),
    "mistral": _decoder("Mistral", **_SHARED_KEYS, sliding_window=4),
    "qwen2": _decoder("Qwen2", **_SHARED_KEYS),
    "qwen3": _decoder("Qwen3", **_HEADS_OF_8),
    "gemma": _decoder("Gemma", **_HEADS_OF_8),
    "gemma2": _decoder("Gemma2", **_HEADS_OF_8, sliding_window=4, query_pre_attn_scalar=8),
    "gemma3": _decoder("Gemma3Text", **_HEADS_OF_8, sliding_window=4, query_pre_attn_scalar=8),
    "phi": _decoder("Phi", partial_rotary_factor=0.5),
    "phi3": _decoder("Phi3", **_SHARED_KEYS, original_max_position_embeddings=32),
    "falcon": _decoder("Falcon", alibi=False, new_decoder_architecture=False),
    "mpt": _decoder("Mpt", d_model=16, n_heads=2, n_layers=2, max_seq_len=32, expansion_ratio=2),
    "stablelm": _decoder("StableLm", **_SHARED_KEYS),
    "olmo": _decoder("Olmo", **_SHARED_KEYS),
    "olmo2": _decoder("Olmo2", **_SHARED_KEYS),
    "cohere": _decoder("Cohere", **_SHARED_KEYS),
    "granite": _decoder("Granite", **_SHARED_KEYS),
    "starcoder2": _decoder("Starcoder2", **_SHARED_KEYS),
    "nemotron": _decoder("Nemotron", **_SHARED_KEYS),
    "persimmon": _decoder("Persimmon"),
    "smollm3": _decoder("SmolLM3", **_SHARED_KEYS),
    "xglm": _decoder("XGLM", d_model=16, ffn_dim=32, num_layers=2, attention_heads=2),
    "biogpt": _decoder("BioGpt"),
    "mixtral": _decoder("Mixtral", **_EXPERTS),
    "qwen2_moe": _decoder("Qwen2Moe", **_EXPERTS),
    "qwen3_moe": _decoder("Qwen3Moe", **_EXPERTS, head_dim=8),
    "gpt_oss": _decoder("GptOss", **_EXPERTS, head_dim=8, sliding_window=4),
    "olmoe": _decoder("Olmoe", **_EXPERTS),
    "deepseek_v3": _decoder(
        "DeepseekV3",
        num_key_value_heads=2,
        n_routed_experts=4,
        n_shared_experts=1,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        kv_lora_rank=8,
        q_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
    ),
    "mamba": _decoder("Mamba", state_size=4, expand=2, conv_kernel=3, time_step_rank=2),
    "rwkv": _decoder("Rwkv", attention_hidden_size=16, context_length=16),
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta"),
    "distilbert": _encoder("DistilBert", dim=16, n_layers=2, n_heads=2, hidden_dim=32),
    "electra": _encoder("Electra", embedding_size=16),
    "albert": _encoder("Albert", embedding_size=8),
    "deberta_v2": _encoder(
        "DebertaV2",
        relative_attention=True,
        pos_att_type="p2c|c2p",
        position_buckets=8,
        max_relative_positions=16,
    ),
    "mpnet": _encoder("MPNet"),
    "modernbert": _encoder(
        "ModernBert", local_attention=4, global_attn_every_n_layers=2, cls_token_id=1
    ),
    "xlnet": _encoder(
        "XLNet", "max_position_embeddings", d_model=16, n_layer=2, n_head=2, d_inner=32
    ),
    "funnel": _encoder(
        "Funnel",
        "num_hidden_layers",
        "max_position_embeddings",
        d_model=16,
        n_head=2,
        d_head=8,
        d_inner=32,
        block_sizes=[1, 1],
    ),
    "squeezebert": _encoder(
        "SqueezeBert",
        embedding_size=16,
        q_groups=2,
        k_groups=2,
        v_groups=2,
        intermediate_groups=2,
        output_groups=2,
    ),
    "nystromformer": _encoder("Nystromformer", segment_means_seq_len=7, num_landmarks=7),
    "fnet": _encoder("FNet"),
    "t5": _pair("T5"),
    "mt5": _pair("MT5"),
    "switch_transformers": _pair(
        "SwitchTransformers",
        options={
            "num_experts": 4,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
            "expert_capacity": 8,
        },
    ),
    "bart": _pair("Bart"),
    "mbart": _pair("MBart"),
    "marian": _pair("Marian", options={"forced_eos_token_id": 2}),
    "pegasus": _pair("Pegasus"),
    "blenderbot": _pair("Blenderbot"),
    "m2m_100": _pair("M2M100"),
    "vit": _image("ViT"),
    "beit": _image("Beit"),
    "swin": _image(
        "Swin",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        embed_dim=8,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=2,
        patch_size=4,
    ),
    "convnext": _image("ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "dinov2": _image("Dinov2"),
    "vit_msn": _image("ViTMSN"),
    "ijepa": _image("IJepa"),
}
