"""The same experiments by TransformerLens on the same weights.

Both run in float64 and agree to 1e-9. For attributions TransformerLens first folds the norms into
the matrices, which it does in float32: there the tolerance is 1e-6 of the largest number.
"""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.experiments import ablate, contributions, difference, logit_lens, patch, sweep
from glassformer.tracing import trace
from tests.experiments.conftest import IDS, OTHER, made

# A heavy program, with 28 packages that nothing else here needs: `make check-slow` installs it.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # theirs, of torch and of each other
]


def bridged(model: Any, folder: Path) -> Any:
    """The model in TransformerLens, which wants a tokenizer with it."""
    import transformers
    from tokenizers import Tokenizer, models
    from transformer_lens.model_bridge import TransformerBridge

    words = Tokenizer(models.WordLevel({f"w{at}": at for at in range(50)}, unk_token="w0"))
    own = {"bos_token": "w0", "eos_token": "w0", "pad_token": "w0", "unk_token": "w0"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **own)
    fast.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, add_bos_token=True)
    bridge = TransformerBridge.boot_transformers(
        "gpt2", hf_model=copy.deepcopy(model), tokenizer=tokenizer, dtype=torch.float64
    )
    return bridge.eval()


def close(one: Tensor, other: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=tolerance)


def test_a_head_ablated(tmp_path: Path) -> None:
    model = made("gpt2")
    bridge = bridged(model, tmp_path)

    def without(z: Tensor, hook: Any) -> Tensor:
        return torch.cat([z[:, :, :1], torch.zeros_like(z[:, :, 1:])], 2)

    with torch.no_grad():
        wanted = bridge.run_with_hooks(IDS, fwd_hooks=[("blocks.1.attn.hook_z", without)])
    close(ablate(trace(model, IDS), "transformer.h.1.attn", head=1)["logits"].value, wanted)


def test_a_position_patched_and_all_of_them(tmp_path: Path) -> None:
    from transformer_lens import patching

    model = made("gpt2")
    bridge = bridged(model, tmp_path)
    with torch.no_grad():
        _, clean = bridge.run_with_cache(OTHER)
        wanted = patching.get_act_patch_resid_pre(
            bridge, IDS, clean, lambda logits: logits[0, -1, 5] - logits[0, -1, 7]
        )
    one, other = trace(model, IDS), trace(model, OTHER)
    logits = one["logits"]
    found = sweep(one, other, measure=difference(logits[0, -1, 5], logits[0, -1, 7]))
    close(found.values, wanted.double(), 1e-7)  # they keep the numbers in float32
    assert found.values.unique().numel() > 8

    def there(resid: Tensor, hook: Any) -> Tensor:
        return torch.cat([resid[:, :3], clean[hook.name][:, 3:4], resid[:, 4:]], 1)

    with torch.no_grad():
        hooked = bridge.run_with_hooks(IDS, fwd_hooks=[("blocks.1.hook_mlp_out", there)])
    close(patch(one, other, "transformer.h.1.mlp_out", position=3)["logits"].value, hooked)


def test_their_code_in_the_guide_gives_our_table(tmp_path: Path) -> None:
    from transformer_lens import patching

    model = made("gpt2")
    guide = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```py\n# TransformerLens\n(.*?)```", guide, re.DOTALL)
    names: dict[str, Any] = {"clean_ids": OTHER, "corrupted_ids": IDS, "patching": patching}
    names["model"] = bridged(model, tmp_path)
    with torch.no_grad():
        exec(code, names)
    one = trace(model, IDS)
    asked = difference(one["logits"][0, -1, 7], one["logits"][0, -1, 9])
    ours = sweep(one, trace(model, OTHER), measure=asked)
    close(ours.values, names["found"].double(), 1e-7)


def test_the_logit_lens(tmp_path: Path) -> None:
    model = made("gpt2")
    bridge = bridged(model, tmp_path)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(IDS)
        streams = [cache["blocks.0.hook_resid_pre"]]
        streams += [cache[f"blocks.{at}.hook_resid_post"] for at in range(3)]
        wanted = torch.stack([bridge.unembed(bridge.ln_final(stream)) for stream in streams])
    close(logit_lens(trace(model, IDS)).values, wanted)


def test_what_heads_and_layers_add_to_a_difference_of_logits(tmp_path: Path) -> None:
    model = made("gpt2")
    bridge = bridged(model, tmp_path)
    bridge.enable_compatibility_mode(disable_warnings=True, fold_value_biases=False)
    logits = trace(model, IDS)["logits"]
    asked = difference(logits[0, -1, 5], logits[0, -1, 7])
    with torch.no_grad():
        _, cache = bridge.run_with_cache(IDS)
        tokens = {"tokens": torch.tensor([5]), "incorrect_tokens": torch.tensor([7])}
        heads = cache.stack_head_results(layer=3, pos_slice=-1)
        by_head = cache.logit_attrs(heads, pos_slice=-1, **tokens).flatten()
        layers, names = cache.decompose_resid(layer=3, pos_slice=-1, return_labels=True)
        by_layer = dict(
            zip(names, cache.logit_attrs(layers, pos_slice=-1, **tokens).flatten(), strict=True)
        )
    answer = contributions(asked, heads=True)
    found = dict(zip(answer.parts, answer.values, strict=True))
    ours = [found[f"transformer.h.{at // 2}.attn head {at % 2}"] for at in range(6)]
    scale = float(by_head.abs().max())
    close(torch.tensor(ours, dtype=torch.float64), by_head, 1e-6 * scale)
    written = [found[f"transformer.h.{at}.mlp_out"] for at in range(3)]
    theirs = torch.stack([by_layer[f"{at}_mlp_out"] for at in range(3)])
    close(torch.tensor(written, dtype=torch.float64), theirs, 1e-6 * scale)
    assert answer.total == pytest.approx(asked.value, abs=1e-9)
