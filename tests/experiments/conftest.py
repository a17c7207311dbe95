"""Small random models of three families, and two runs of each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

IDS = torch.tensor([[1, 2, 3, 4, 9]])
OTHER = torch.tensor([[1, 7, 3, 8, 9]])


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=8, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=8, intermediate_size=12, num_hidden_layers=3,
        num_attention_heads=2, num_key_value_heads=1,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def bert() -> Any:
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=16, num_labels=3,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def albert() -> Any:
    """One layer that runs three times."""
    config = transformers.AlbertConfig(
        vocab_size=50, hidden_size=8, embedding_size=8, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=16, num_labels=3,
    )  # fmt: skip
    return transformers.AlbertForSequenceClassification(config)


def bart() -> Any:
    config = transformers.BartConfig(
        vocab_size=50, d_model=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        max_position_embeddings=16,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


def bert_mlm() -> Any:
    return transformers.BertForMaskedLM(bert().config)


MODELS: dict[str, Callable[[], Any]] = {"gpt2": gpt2, "llama": llama, "bert": bert}
MORE = {"albert": albert, "bart": bart, "bert_mlm": bert_mlm}


def made(name: str) -> Any:
    """A model of that family whose parameters are large enough to matter."""
    torch.manual_seed(5)
    model = (MODELS | MORE)[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double()


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Any:
    return made(request.param)


def target(logits: Tensor) -> Tensor:
    """What the experiments ask about, for each example: a class score, or the last logits."""
    return logits[:, 2] if logits.ndim == 2 else logits[:, -1, 5]
