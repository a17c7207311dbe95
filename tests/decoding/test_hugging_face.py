"""The same tokens as Hugging Face `generate`, on the same weights, greedy and beam."""

import warnings

import pytest
import torch

from glassformer.decoding import Beam, Greedy, Search, extend, translate
from glassformer.export.hugging_face_export import hugging_face_config, hugging_face_state
from glassformer.nn import LanguageModel, Seq2Seq, build, presets
from glassformer.nn.foreign import config_from_hugging_face, load_hugging_face_gpt2
from glassformer.text import SpecialTokens
from tests.decoding.tiny import sources

SPECIAL = SpecialTokens(pad=0, start=1, end=2)
VOCABULARY = 40
SEARCHES: list[tuple[Search, dict[str, object]]] = [
    (Greedy(), {"num_beams": 1}),
    (Beam(size=4), {"num_beams": 4, "early_stopping": True}),
    (Beam(size=3, length_penalty=0.0), {"num_beams": 3, "early_stopping": True}),
    (Beam(size=3, length_penalty=0.4, stop="exact"), {"num_beams": 3, "early_stopping": "never"}),
]


def sharpened(model: torch.nn.Module, factor: float, end_bias: float = 0) -> torch.nn.Module:
    """Fresh weights repeat themselves; larger ones, and an output bias, make texts that differ."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name == "to_vocabulary.bias":
                parameter.normal_(std=0.5)
                parameter[SPECIAL.end] = end_bias  # so that some texts end
            elif parameter.dim() > 1 and "embedding" not in name:
                parameter.mul_(factor)
    return model.eval().double()


@pytest.mark.parametrize("pre_norm", [False, True], ids=["marian", "pegasus"])
@pytest.mark.parametrize(("search", "options"), SEARCHES)
def test_translators_translate_alike(
    search: Search, options: dict[str, object], pre_norm: bool
) -> None:
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    torch.manual_seed(1)
    config = presets.vaswani_2017_base(
        vocab_size=VOCABULARY, d_model=16, n_heads=2, n_layers=2, d_ff=24, max_len=64, pad_id=0
    ).with_(output__bias=True, block__norm_first=pre_norm, block__final_norm=pre_norm)
    ours = sharpened(build(config), 1, end_bias=2 if pre_norm else 3)
    assert isinstance(ours, Seq2Seq)
    settings = AutoConfig.for_model(**hugging_face_config(config, SPECIAL))
    theirs = AutoModelForSeq2SeqLM.from_config(settings).double().eval()
    theirs.load_state_dict(hugging_face_state(ours), strict=False)
    theirs.tie_weights()
    texts = [[*ids, 2] for ids in sources(8, VOCABULARY)]
    longest = max(map(len, texts))
    padded = torch.tensor([ids + [0] * (longest - len(ids)) for ids in texts])
    output = theirs.generate(
        input_ids=padded,
        attention_mask=padded.ne(0).long(),
        do_sample=False,
        max_new_tokens=20,
        length_penalty=search.length_penalty if isinstance(search, Beam) else 1.0,
        **options,
    )
    found = translate(ours, texts, start=1, end=2, search=search, max_new=20)
    assert [list(one.best.tokens) for one in found] == [_until_end(row) for row in output[:, 1:]]
    assert len({one.best.tokens for one in found}) > 2, "the texts should differ"
    if isinstance(search, Beam):
        assert 0 < sum(one.best.ended for one in found) < 8, "some should end, and some not"


@pytest.mark.parametrize(("search", "options"), SEARCHES)
def test_gpt2_continues_alike(search: Search, options: dict[str, object]) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_positions=64, n_embd=16, n_layer=2, n_head=2,
            bos_token_id=1, eos_token_id=2, pad_token_id=0,
        )
    )  # fmt: skip
    sharpened(theirs, 12)
    ours = build(config_from_hugging_face(theirs.config.to_dict())).double().eval()
    assert isinstance(ours, LanguageModel)
    load_hugging_face_gpt2(ours, theirs.state_dict())
    prompts = sources(6, VOCABULARY)
    found = extend(ours, prompts, end=2, search=search, max_new=15)
    for prompt, one in zip(prompts, found, strict=True):
        ids = torch.tensor([prompt])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # length_penalty in greedy search
            output = theirs.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=15,
                length_penalty=search.length_penalty if isinstance(search, Beam) else 1.0,
                **options,
            )
        assert list(one.best.tokens) == _until_end(output[0, len(prompt) :])


def _until_end(row: torch.Tensor) -> list[int]:
    ids: list[int] = row.tolist()
    return ids[: ids.index(2)] if 2 in ids else ids
