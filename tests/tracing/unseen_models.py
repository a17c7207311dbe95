"""Models that no other test names, in random small sizes: for checks of what is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

Example = tuple[nn.Module, dict[str, Any]]
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _ids(rows: int, length: int, vocabulary: int) -> Tensor:
    return torch.randint(3, vocabulary, (rows, length))


# --- convolutional networks ---


class Residual(nn.Module):
    """A stem, two residual blocks with batch norm, and a head: a small ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)
        self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(2 * width)
        self.inner = nn.Conv2d(width, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 1, stride=2)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.first(self.stem(image))), 2, padding=1)
        x = F.relu(x + self.inner(x))
        x = F.leaky_relu(self.second(self.down(x)), 0.1)
        logits: Tensor = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


class Gated(nn.Module):
    """Depthwise convolutions with squeeze and excitation, and a decoder that upsamples."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.depthwise = nn.Conv2d(width, width, 3, padding=2, dilation=2, groups=width)
        self.squeeze, self.excite = nn.Linear(width, 2), nn.Linear(2, width)
        self.norm = nn.GroupNorm(2, width)
        self.up = nn.ConvTranspose2d(width, 3, 2, stride=2)
        self.log_scale = nn.Parameter(torch.randn(3))

    def forward(self, image: Tensor) -> Tensor:
        x = F.hardswish(self.depthwise(F.silu(self.stem(image))))
        gate = self.excite(F.mish(self.squeeze(x.mean((2, 3))))).sigmoid()
        x = self.norm(x * gate[:, :, None, None])
        small = F.avg_pool2d(x, 2)
        x = x + F.interpolate(small, size=x.shape[-2:], mode="bilinear")
        outside = F.pad(self.up(x), (1, 1, 0, 0), mode="reflect")
        spread = F.softplus(self.log_scale)[:, None, None]
        return outside.clamp(-1, 1) / spread + outside.abs().sqrt() * 1e-6


# --- recurrent, and attention of torch ---


class Seq2Seq(nn.Module):
    """A bidirectional GRU, a decoder LSTM, and additive attention."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.encoder = nn.GRU(width, width, bidirectional=True, batch_first=True)
        self.decoder = nn.LSTM(width, width, 2, batch_first=True, proj_size=width - 1)
        self.keys, self.queries = nn.Linear(2 * width, width), nn.Linear(width - 1, width)
        self.energy = nn.Linear(width, 1, bias=False)
        self.output = nn.Linear(3 * width - 1, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, _ = self.encoder(self.embed(source))
        states, _ = self.decoder(self.embed(target))
        together = self.queries(states)[:, :, None] + self.keys(memory)[:, None]
        scores = self.energy(together.tanh()).squeeze(-1)
        scores = scores.masked_fill((source == 0)[:, None], -torch.inf)
        context = scores.softmax(-1) @ memory
        return F.log_softmax(self.output(torch.cat([states, context], -1)), -1)


def norm_first_transformer() -> Example:
    model = nn.Transformer(12, 3, 2, 2, 20, batch_first=True, norm_first=True, activation="relu")
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    source, target = torch.randn(2, 6, 12), torch.randn(2, 5, 12)
    return model.eval(), {"src": source, "tgt": target, "tgt_mask": mask, "tgt_is_causal": True}


class BiasedAttention(nn.Module):
    """nn.MultiheadAttention with key and value biases, zero attention and other key widths."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(
            12, 2, add_bias_kv=True, add_zero_attn=True, kdim=7, vdim=5, batch_first=True
        )

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        context, weights = self.attend(query, key, value, average_attn_weights=False)
        return context, weights


# --- Hugging Face ---


def _small(width: int = 16, layers: int = 2, heads: int = 2) -> dict[str, int]:
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 2 * width + 4,
    }


def llava() -> Example:
    """Vision and language: image features are scattered among the embedded tokens."""
    vision = transformers.CLIPVisionConfig(**_small(), image_size=8, patch_size=4)
    text = transformers.LlamaConfig(**_small(12), vocab_size=40, num_key_value_heads=1, **SPECIAL)
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=39,
        vision_feature_layer=-1,
        image_seq_length=4,
    )
    ids = torch.cat([torch.full((1, 4), 39), _ids(1, 3, 38)], 1)
    return transformers.LlavaForConditionalGeneration(config).eval(), {
        "input_ids": ids,
        "pixel_values": torch.randn(1, 3, 8, 8),
        "use_cache": False,
    }


def bfloat16_llava() -> Example:
    model, inputs = llava()
    return model.bfloat16(), {**inputs, "pixel_values": inputs["pixel_values"].bfloat16()}


def mamba2() -> Example:
    config = transformers.Mamba2Config(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4, num_heads=4, head_dim=8,
        n_groups=2, chunk_size=4, **SPECIAL,
    )  # fmt: skip
    return transformers.Mamba2ForCausalLM(config).eval(), {
        "input_ids": _ids(1, 6, 40),
        "use_cache": False,
    }


def whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=40, num_mel_bins=6, d_model=16, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=4, encoder_ffn_dim=20,
        decoder_ffn_dim=24, max_source_positions=10, max_target_positions=12,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None, **SPECIAL,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config).eval(), {
        "input_features": torch.randn(1, 6, 20),
        "decoder_input_ids": _ids(1, 5, 40),
        "use_cache": False,
    }


def deepseek_v2() -> Example:
    """A mixture of experts with low-rank keys and values."""
    config = transformers.DeepseekV2Config(
        **_small(), vocab_size=40, num_key_value_heads=2, moe_intermediate_size=8,
        n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, first_k_dense_replace=1,
        q_lora_rank=6, kv_lora_rank=6, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=6,
        n_group=1, topk_group=1, **SPECIAL,
    )  # fmt: skip
    return transformers.DeepseekV2ForCausalLM(config).eval(), {
        "input_ids": _ids(2, 5, 40),
        "use_cache": False,
    }


def jamba() -> Example:
    """Attention, state-space layers and experts in one model."""
    config = transformers.JambaConfig(
        **_small(), vocab_size=40, num_key_value_heads=1, num_experts=2, num_experts_per_tok=1,
        mamba_d_state=4, mamba_d_conv=2, mamba_dt_rank=3, attn_layer_period=2, attn_layer_offset=1,
        expert_layer_period=2, expert_layer_offset=1, use_mamba_kernels=False, **SPECIAL,
    )  # fmt: skip
    return transformers.JambaForCausalLM(config).eval(), {
        "input_ids": _ids(1, 5, 40),
        "use_cache": False,
    }


def clip() -> Example:
    text = {**_small(12), "vocab_size": 40, "max_position_embeddings": 8, **SPECIAL}
    vision = {**_small(16), "image_size": 8, "patch_size": 4}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=6)
    return transformers.CLIPModel(config).eval(), {
        "input_ids": torch.cat([_ids(2, 4, 40), torch.full((2, 1), 2)], 1),
        "pixel_values": torch.randn(2, 3, 8, 8),
    }


def wav2vec2() -> Example:
    config = transformers.Wav2Vec2Config(
        **_small(), vocab_size=20, conv_dim=(8, 8), conv_kernel=(5, 3), conv_stride=(3, 2),
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.Wav2Vec2ForCTC(config).eval(), {"input_values": torch.randn(1, 60)}


def bfloat16_recurrent_gemma() -> Example:
    config = transformers.RecurrentGemmaConfig(
        **_small(), vocab_size=40, num_key_value_heads=1, lru_width=16, attention_window_size=8,
        block_types=("recurrent", "attention"), **SPECIAL,
    )  # fmt: skip
    model = transformers.RecurrentGemmaForCausalLM(config).eval().bfloat16()
    return model, {"input_ids": _ids(1, 5, 40), "use_cache": False}


def perceiver() -> Example:
    """Learned queries that attend to the input."""
    config = transformers.PerceiverConfig(
        num_latents=3, d_latents=12, d_model=10, num_blocks=1, num_self_attends_per_block=1,
        num_self_attention_heads=2, num_cross_attention_heads=2, vocab_size=30,
        max_position_embeddings=9, num_labels=4,
    )  # fmt: skip
    return transformers.PerceiverForSequenceClassification(config).eval(), {
        "inputs": _ids(1, 6, 30),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]]),
    }


MODELS: dict[str, Callable[[], Example]] = {
    "residual": lambda: (Residual(4).eval(), {"image": torch.randn(2, 3, 12, 12)}),
    "gated": lambda: (Gated(6).eval(), {"image": torch.randn(1, 2, 6, 8)}),
    "seq2seq": lambda: (
        Seq2Seq(6, 11).eval(),
        {"source": torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]), "target": _ids(2, 3, 11)},
    ),
    "norm-first transformer": norm_first_transformer,
    "biased attention": lambda: (
        BiasedAttention().eval(),
        {
            "query": torch.randn(1, 3, 12),
            "key": torch.randn(1, 4, 7),
            "value": torch.randn(1, 4, 5),
        },
    ),
    "llava": llava,
    "bfloat16 llava": bfloat16_llava,
    "mamba2": mamba2,
    "whisper": whisper,
    "deepseek_v2": deepseek_v2,
    "jamba": jamba,
    "clip": clip,
    "wav2vec2": wav2vec2,
    "bfloat16 recurrent_gemma": bfloat16_recurrent_gemma,
    "perceiver": perceiver,
}
