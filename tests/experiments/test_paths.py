"""“Follow the largest contribution” has one meaning: it ends at the word that counts."""

import torch
from torch import Tensor, nn

from examples.make_toy import SHIPPED
from glassformer import checkpoint
from glassformer.experiments import words
from glassformer.tracing import Trace, trace
from glassformer.tracing.influence import largest_contribution


def toy(text: str) -> Trace:
    loaded = checkpoint.load(SHIPPED)
    assert loaded.tokenizer is not None
    ids = torch.tensor([loaded.tokenizer.encode(text)])
    return trace(loaded.model, ids, axis_labels={"ids": text.split()})


def test_the_toys_answer_leads_to_not() -> None:
    run = toy("I am not happy")
    for answer in (0, 1):
        trail = run["logits"][0, answer].path()
        assert trail[-1].name == "ids[0, 2]", [cell.name for cell in trail]
        assert words(run["logits"][0, answer]).strongest == "not"


def test_one_step_is_the_first_of_the_path() -> None:
    run = toy("I am not happy")
    cell = run["logits"][0, 0]
    for one, below in zip(cell.path(), cell.path()[1:], strict=False):
        assert largest_contribution(one) == below
    assert largest_contribution(cell.path()[-1]) is None


class Pooled(nn.Module):
    """A mean over the positions that are not padding, masked as usual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(10, 4)

    def forward(self, ids: Tensor) -> Tensor:
        mask = (ids != 0).float()
        x = self.embedding(ids) + (1 - mask)[..., None] * -1e4
        counts = mask.sum(-1, keepdim=True)
        summed: Tensor = (mask[..., None] * x).sum(1)
        mean: Tensor = summed / counts
        return mean


def test_neither_masks_nor_counts_are_followed() -> None:
    run = trace(Pooled().eval(), torch.tensor([[3, 0, 5, 0, 0]]))
    masks = {"mask", "counts"}
    for dimension in range(4):
        trail = run.outputs["output"][0, dimension].path()
        assert not masks & {cell.step.name.partition(".")[0] for cell in trail}
        assert trail[-1].name in ("ids[0, 0]", "ids[0, 2]")
