"""Small models that we did not write, with random parameters and inputs of two rows."""

from collections.abc import Callable
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
    """The layers that torch runs as one fused operator unless the trace stops it."""
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
