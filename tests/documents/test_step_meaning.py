"""“What is this?”: each sentence's facts recomputed from the numbers, on three kinds of models."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import permutations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import glassformer
from glassformer.documents.meaning_phrases import digits, percent
from glassformer.documents.step_meaning import meaning, operation_title, title_of
from glassformer.documents.step_roles import role_of
from glassformer.language import Bilingual, Language
from glassformer.lessons import make_lesson
from glassformer.tasks import load
from glassformer.tracing import Step, Trace, trace
from glassformer.tracing.attention_structure import Attention
from glassformer.tracing.capture.memory import Index
from tests.tracing.mapped_models import traced

LANGUAGES: tuple[Language, ...] = ("en", "zh")
BLOCKS = "encoder.blocks.0."


@cache
def toy(text: str = "I am not happy") -> Trace:
    return load("toy", attention="written").trace(text)


@cache
def translator() -> Trace:
    return load("en-de", attention="written").trace("A dog runs through the snow.")


@cache
def hugging_face(name: str) -> Trace:
    import transformers as hf

    torch.manual_seed(3)
    module: torch.nn.Module
    if name == "bert":
        module = hf.BertForSequenceClassification(
            hf.BertConfig(
                vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                intermediate_size=32, max_position_embeddings=32, initializer_range=1.0,
            )
        )  # fmt: skip
    else:
        module = hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=0,
                eos_token_id=0, initializer_range=1.0,
            )
        )  # fmt: skip
    words = ["the", "cat", "sat", "down"]
    ids = torch.tensor([[1, 5, 9, 2]])
    return glassformer.trace(module.eval(), ids, axis_labels={"input_ids": words})


def said(step: Step, language: Language = "en") -> str:
    return meaning(step, language).text


def array(step: Step) -> np.ndarray:
    return step.value.double().numpy()


# --- the sentences of the issue ---


def test_the_toys_scores_are_told_as_a_teacher_would() -> None:
    scores = toy()[f"{BLOCKS}attention.scores"]
    assert said(scores).endswith(
        "“happy” asks; “not” answers with 6, the others with 0; "
        "after the softmax it gives 99% of its attention to “not”."
    )
    assert "“happy”提问，“not”的回应是 6，其余都是 0" in said(scores, "zh")
    assert "它把 99% 的注意力放在“not”上" in said(scores, "zh")


def test_a_cell_of_the_toy_is_told() -> None:
    cell = toy()[f"{BLOCKS}attention.scores"][0, 3, 2]
    assert meaning(cell, "en").text == (
        "“happy” asks, “not” answers with 6: the dot product of a query and a key. "
        "It is the largest of 4 in its row. After the softmax it is a weight of 99%."
    )


def test_an_edit_changes_the_sentence() -> None:
    trace = toy().edit({f"{BLOCKS}attention.scores": {(0, 0, 3, 2): 0.0}})
    scores = trace[f"{BLOCKS}attention.scores"]
    assert "set by hand: 0" in meaning(scores[0, 3, 2], "en").text
    assert said(scores).endswith(" One of its numbers was set by hand.")
    row = toy().edit({"encoder.embedding.looked_up": {(0, 3, n): 0.0 for n in range(4)}})
    assert said(row["encoder.embedding.looked_up"], "zh").endswith("其中 4 个数是手工设定的。")
    weights = meaning(trace[f"{BLOCKS}attention.weights"][0, 3, 2], "en").text
    assert (
        "gives 25% of its attention to “not”" in weights and "All 4 in its row are equal" in weights
    )


# --- every role on three models, in both languages ---

ROLES = {
    "toy": "embedding queries keys values scores scaled masked weights context output residual "
    "hidden activated contracted total pooled logits operation parameter input",
    "en-de": "embedding positions embedded norm queries keys values scores scaled masked weights "
    "context joined output residual hidden activated contracted logits operation",
    "bert": "embedding segments positions embedded norm queries keys values scores scaled weights "
    "context joined output residual hidden activated contracted picked logits operation",
    "gpt2": "embedding positions embedded norm packed keys values scores scaled masked weights "
    "context joined output residual hidden contracted logits operation",
}


@cache
def model(name: str) -> Trace:
    if name in ("toy", "en-de"):
        return toy() if name == "toy" else translator()
    return hugging_face(name)


def all_steps(trace: Trace) -> list[Step]:
    return [*trace.parameters.values(), *trace.inputs.values(), *trace.steps]


@pytest.mark.parametrize("name", ROLES)
def test_every_step_of_a_model_has_its_role_and_its_sentences(name: str) -> None:
    steps = all_steps(model(name))
    assert set(ROLES[name].split()) <= {role_of(step) for step in steps}
    for step in steps:
        last = tuple(size - 1 for size in step.shape)
        for language in LANGUAGES:
            for text in (meaning(step, language).text, meaning(step[last], language).text):
                assert len(text) > 12 and "{" not in text and "nan" not in text.lower()
                assert text.endswith("." if language == "en" else "。")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ROLES)
def test_every_role_has_a_title(name: str, language: Language) -> None:
    given = {"operation", "parameter", "input", "constant"}
    for step in all_steps(model(name)):
        title = title_of(step)
        assert role_of(step) in given or (title is not None and title.say(language))


def test_plain_operations_and_ids_are_called_what_they_are() -> None:
    trace = translator()
    ids = operation_title(trace.inputs["source"])
    assert ids == operation_title(trace.inputs["target"]) == Bilingual("token ids", "词元编号")
    scaled = operation_title(trace["encoder.embedding.scaled"])
    assert scaled == Bilingual("scaled embeddings", "缩放后的词嵌入")
    assert operation_title(toy()["without_padding"]) == Bilingual("masking", "掩码")
    assert operation_title(toy()["logits"]) is None


# --- facts, recomputed without the code that says them ---


def steps_of(role: str) -> Iterator[tuple[str, Step]]:
    """The steps of a role in every model."""
    for name in ROLES:
        yield from ((name, step) for step in model(name).steps if role_of(step) == role)


def test_a_weight_is_told_as_its_share_and_its_rank() -> None:
    checked = 0
    for _, step in steps_of("weights"):
        values = array(step)
        for index in list(np.ndindex(values.shape))[:: max(1, values.size // 12)]:
            text = meaning(step[index], "en").text
            row, value = values[index[:-1]], float(values[index])
            if value == 0:
                assert "gives 0%" in text
                continue
            assert f"gives {percent(value)}" in text
            allowed = row[row > 0]
            if "It is the largest" in text:
                assert value == allowed.max()
            if "It is the smallest" in text:
                assert value == allowed.min()
            larger = re.search(r"(\d+|One) of (\d+) in its row (?:is|are) larger", text)
            if larger is not None:
                above = 1 if larger[1] == "One" else int(larger[1])
                assert (above, int(larger[2])) == ((allowed > value).sum(), len(allowed))
            assert percent(value) in meaning(step[index], "zh").text
            checked += 1
    assert checked > 100


def test_the_row_chosen_for_weights_is_true() -> None:
    who = r"“(?P<who>[^”]*)”(?: \((?P<row>\d+)\w\w token\))?"
    whom = r"“(?P<whom>[^”]*)”(?: \((?P<at>\d+)\w\w token\))?"
    share = r"(?P<share>[<>]? ?\d+)%"
    found = [rf"{who} attends most to {whom}, with {share}", rf"{who} gives {share} .* to {whom}"]
    checked = 0
    for _, step in steps_of("weights"):
        labels = [[text.strip("␣") for text in axis or ()] for axis in step.labels[-2:]]
        for head in range(step.shape[1]):
            text = meaning(step, "en", (0, head)).text
            match = next(filter(None, (re.search(form, text) for form in found)), None)
            if match is None:
                continue
            row = int(match["row"]) - 1 if match["row"] else labels[0].index(match["who"])
            best = int(match["at"]) - 1 if match["at"] else labels[1].index(match["whom"])
            values = array(step)[0, head]
            assert values[row, best] == values[row].max()
            assert percent(values[row, best]) == f"{match['share']}%"
            checked += 1
    assert checked > 10


def test_a_word_is_the_example_rather_than_a_full_stop() -> None:
    """In this head the full stop attends to the end more than any word to another."""
    told = said(translator()["encoder.blocks.0.attention.scores"])
    asking, answering = re.findall("“(.+?)”", told)[:2]
    assert asking.strip("␣").isalpha() and answering.strip("␣").isalpha(), told


def test_scores_scaled_and_context_are_told_with_their_numbers() -> None:
    for role in ("scores", "scaled", "context"):
        for name, step in steps_of(role):
            index = (0, step.shape[1] - 1, 2, min(1, step.shape[3] - 1))
            text = meaning(step[index], "en").text
            assert digits(array(step)[index]) in text, (name, role)
            if role == "context":
                values = next(
                    o for o in step.operands if o.argument in ("other", "mat2")
                ).value.double().numpy()  # fmt: skip
                shares = array(_weights_before(step))[index[:3]]
                parts = shares * values[0, index[1], :, index[3]]
                top = int(np.argmax(np.abs(parts)))
                assert digits(parts[top]) in text and digits(shares[top]) in text
            if role == "scores":
                queries, keys = (o.value.double() for o in step.operands[-2:])
                dot = (queries @ keys)[index].item()
                assert array(step)[index] == pytest.approx(dot, rel=1e-4, abs=1e-5)


def _weights_before(context: Step) -> Step:
    steps = context.trace.steps
    before = [s for s in steps[: steps.index(context)] if role_of(s) == "weights"]
    return before[-1]


def test_a_causal_mask_names_what_comes_later() -> None:
    for traced_text in (hugging_face("gpt2"), translator()):
        masks = [s for s in traced_text.steps if role_of(s) == "masked"]
        causal = next(s for s in masks if np.isneginf(array(s)).any())
        text = meaning(causal[0, 0, 0, 1], "en").text
        assert "comes after" in text and "−∞" in text and "weight 0" in text
        count = int(np.isneginf(array(causal)[0, 0]).sum())
        assert f"Here {count} of {causal.shape[-1] ** 2} scores are hidden" in said(causal)
        assert f"有 {count} 个被遮住" in said(causal, "zh")


class OwnAttention(torch.nn.Module):
    """Attention as one writes it by hand: the keys are what the queries are a map of."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.ask = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.into(x))
        return torch.softmax(self.ask(h) @ h.transpose(1, 2) / 2, -1) @ h


def test_keys_that_are_not_projected_do_not_make_it_cross_attention() -> None:
    t = trace(OwnAttention(), torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0)))
    said = [meaning(step, "en").text for step in t.steps]
    assert any(text.startswith("Every token asks and every token answers") for text in said)
    assert not any("of the target" in text for text in said)


def test_cross_attention_names_the_source_and_the_target() -> None:
    trace = translator()
    for stage in ("projected_queries", "projected_keys", "scores", "weights", "context"):
        cross = trace[f"decoder.blocks.0.cross_attention.{stage}"]
        own = trace[f"decoder.blocks.0.attention.{stage}"]
        assert "the source (“A” … “<end>”)" in said(cross)
        assert "源序列（“A”……“<end>”）" in said(cross, "zh")
        assert "source" not in said(own) and "源序列" not in said(own, "zh")
    weights = trace["decoder.blocks.0.cross_attention.weights"]
    assert "“Ein”, which “Hund” follows, gives" in meaning(weights[0, 0, 1, 1], "en").text


def test_sums_and_norms_are_told_with_what_went_in() -> None:
    for name in ROLES:
        for step in model(name).steps:
            role = role_of(step)
            if role not in ("residual", "embedded", "norm"):
                continue
            index = (0, 1, 3)
            text = meaning(step[index], "en").text
            assert digits(array(step)[index]) in text
            if role == "norm":
                given = next(o for o in step.operands if o.argument == "input").value.double()
                row = given.numpy()[index[:-1]]
                assert f"was {digits(row[3])}" in text and digits(row.mean()) in text
                eps = step.call.bound["eps"] if step.call is not None else 0.0
                divisor = np.sqrt(row.var() + eps)
                assert f"divided by the standard deviation {digits(divisor)}" in text
                assert f"it is {digits((row[3] - row.mean()) / divisor)}" in text
                assert ("(with ε)" in text) == (digits(divisor) != digits(row.std()))
            else:
                sides = [np.broadcast_to(o.value.double().numpy(), step.shape)[index]
                         for o in step.operands]  # fmt: skip
                assert all(digits(side) in text for side in sides)


def test_a_residual_sum_names_the_token_that_changes_most() -> None:
    form = r"“(?P<who>[^”]*)”.* changes most: a vector of length (?P<branch>\S+) is added to one of"
    checked = 0
    for name, step in steps_of("residual"):
        lengths = [np.linalg.norm(o.value.double().numpy()[0], axis=-1) for o in step.operands]
        match = re.search(rf"{form} length (?P<stream>\S+)\.", said(step))
        if match is None:
            assert f"To each of the {step.shape[1]} tokens a vector of length" in said(step), name
            continue
        tops = [
            (int(np.argmax(branch)), stream, branch) for stream, branch in permutations(lengths)
        ]
        told = [(digits(branch[top]), digits(stream[top])) for top, stream, branch in tops]
        top = tops[told.index((match["branch"], match["stream"]))][0]
        assert (step.labels[1] or ())[top].strip("␣") == match["who"]
        checked += 1
    assert checked > 10


def test_pooling_and_logits() -> None:
    trace = toy()
    totals = array(trace["encoder.blocks.0.feed_sum"])[0].sum(axis=0)
    text = meaning(trace["pooled"][0, 1], "en").text
    assert f"The sum {digits(totals[1])} divided by 4 gives {digits(totals[1] / 4)}" in text
    assert "1 each, come from “I”, “am”, “not” and “happy”" in meaning(
        trace["totals"][0, 3], "en"
    ).text  # fmt: skip
    logits = array(trace["logits"])[0]
    share = np.exp(logits) / np.exp(logits).sum()
    assert (
        f"“sad” has the largest, {digits(logits[0])}; the softmax gives it {percent(share[0])}"
        in (said(trace["logits"]))
    )
    assert "the vector of “the” alone stands for the whole text" in said(
        hugging_face("bert")["bert.pooler.pooled_output"]
    )


def test_a_packed_projection_knows_its_parts() -> None:
    step = next(s for s in hugging_face("gpt2").steps if role_of(s) == "packed")
    texts = [meaning(step[1, place], "en").text for place in (0, 16, 32)]
    for text, part in zip(texts, ("query", "key", "value"), strict=True):
        assert f"number 1 of the {part} of “cat”" in text


# --- ties, one token, nothing to look at, infinite numbers ---


def test_a_tie_is_undecided() -> None:
    logits = toy("I am not glad")["logits"]
    values = array(logits)[0]
    assert values[0] == values[1]
    assert "undecided" in said(logits) and "无法判定" in said(logits, "zh")


def test_one_token_attends_to_itself_alone() -> None:
    trace = toy("happy")
    assert "“happy” attends to “happy” alone" in said(trace[f"{BLOCKS}attention.weights"])
    assert "only one in its row" in meaning(trace[f"{BLOCKS}attention.scores"][0, 0, 0], "en").text


def test_a_row_that_may_look_at_nothing() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            scores = x @ x.transpose(-2, -1)
            masked = scores.masked_fill(~mask, float("-inf"))
            weights: torch.Tensor = torch.ops.aten._safe_softmax(masked, -1)
            return weights @ x

    mask = torch.tensor([[True, True], [False, False]])
    trace = glassformer.trace(Attention(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), mask)
    weights = trace["weights"]
    assert "gives 0%" in meaning(weights[1, 0], "en").text
    assert "attention" in said(weights)


def test_a_number_that_is_not_one_leaves_a_plain_sentence() -> None:
    trace = toy().edit({f"{BLOCKS}attention.scores": {(0, 0, 3, 2): float("nan")}})
    for step in trace.steps:
        for language in LANGUAGES:
            assert meaning(step, language).text


def test_a_view_is_told_as_the_numbers_of_another_step() -> None:
    run = make_lesson("illustrated").traces()[0]
    joined = next(view for view in run.views if view.name == "joined")
    assert said(joined).startswith("The numbers of context in another arrangement")
    assert "activation" not in said(joined, "zh")


def test_an_unknown_step_is_told_by_its_operation() -> None:
    trace = glassformer.trace(lambda x: (x * x).sum(-1), torch.tensor([[3.0, -4.0]]))
    product, total = trace.steps
    assert role_of(product) == role_of(total) == "operation"
    assert "Computed from x by multiplication" in said(product)
    text = meaning(total[0], "en").text
    assert text.startswith("25, computed") and "a sum of 2 terms. The largest in magnitude" in text


def test_a_router_of_experts_is_no_gate() -> None:
    steps = [s for s in traced("mixtral").steps if s.name.endswith("router_logits")]
    assert steps and {role_of(step) for step in steps} == {"router"}
    row = array(steps[0])[-1]
    best, value = int(row.argmax()), digits(row.max())
    assert f"For the 14th row, expert {best + 1} has the largest, {value}." in said(steps[0])
    assert "专家" in said(steps[0], "zh")
    gates = [s for s in traced("llama").steps if s.name.endswith("gate_proj")]
    assert gates and {role_of(step) for step in gates} == {"gate"}


def test_positions_are_found_where_they_come_before_the_texts() -> None:
    projected = traced("torch.nn.Transformer")["encoder.layers.0.self_attn.proj"]
    assert projected.shape[:2] == (9, 2)
    assert "for the 9th position" in meaning(projected[8, 1, 95], "en").text


def test_masks_are_read_once_for_all_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    run = glassformer.load("shakespeare").trace("To be, or not")
    logits = next(iter(run.outputs.values()))
    read, hidden = [], Attention.hidden

    def counted(own: Attention, lead: Index) -> NDArray[np.bool_]:
        read.append(lead)
        return hidden(own, lead)

    monkeypatch.setattr(Attention, "hidden", counted)
    texts = [meaning(logits[0, 3, place], "en").text for place in range(5)]
    assert all("as the token after" in text for text in texts)
    assert len(read) == 1


# --- words ---


def test_percents_never_read_0_or_100_where_they_are_not() -> None:
    shares = {
        0.0: "0%", 1e-9: "< 0.0001%", 1e-5: "0.001%", 0.00123: "0.12%", 0.25: "25%",
        0.996: "99.6%", 0.99999: "> 99.99%", 1.0: "100%",
    }  # fmt: skip
    assert {share: percent(share) for share in shares} == shares


def test_a_mask_after_the_softmax_is_not_told_as_if_it_were_before() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT).softmax(-1)
        kept = weights * torch.ones(3, 3).tril()
        return kept @ v

    after = trace(attend, *(torch.randn(1, 3, 4) for _ in range(3)))
    assert "enters its context" not in meaning(after["weights"][0, 0, 2], "en").text
    assert "matrix product" in meaning(after.stages["context"], "en").text


def test_a_row_hidden_altogether_leaves_a_mask_a_mask() -> None:
    allowed = torch.tensor([[True, False, False], [False, False, False], [True, True, False]])

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT
        masked = scores.masked_fill(~allowed, -1e9)
        return masked.softmax(-1) @ v

    padded = trace(attend, *(torch.randn(1, 3, 4) for _ in range(3)))
    assert meaning(padded["masked"], "en").role == "masked"
