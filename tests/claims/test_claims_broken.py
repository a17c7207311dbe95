"""Verdicts are computed: break the mechanism behind a claim, and its verdict changes."""

import pytest

from glassformer.claims import claims
from tests.claims import broken
from tests.claims.broken import Breaker
from tests.claims.claim_runs import QUICK, as_users_run_it, outcome_of

pytestmark = pytest.mark.no_cover  # the lines of test_claims.py, again and again
# What each broken mechanism must change. Other claims may change with it; these rest on it.
NOTICED: dict[Breaker, str] = {
    broken.no_softmax: "C01 C02 C08 C14 C25 C30 C67 C79",
    broken.even_weights: "C07 C25 C30 C47",
    broken.even_sum: "C11",
    broken.transposed_weights: "C22 C41 C47",
    broken.no_attention: "C01 C07 C09 C14 C21 C23 C59 C91",
    broken.no_scale: "C24 C32 C41 C47",
    broken.model_scale: "C24 C32",
    broken.right_scale: "C34 C35",
    broken.no_mask: "C50 C74 C75 C76",
    broken.always_masked: "C04 C06 C82 C92",
    broken.no_positions: "C60 C62 C64 C66",
    broken.always_positions: "C06 C60 C62",
    broken.shared_maps: "C27 C42",
    broken.one_head: "C39 C46 C47",
    broken.full_width_heads: "C34 C35 C40 C42 C43 C49 C89",
    broken.values_as_wide_as_keys: "C16 C20",
    broken.no_output_map: "C24 C28 C29 C43",
    broken.no_residual: "C51 C53",
    broken.no_norm: "C52",
    broken.norm_over_positions: "C09 C52 C59 C75",
    broken.no_epsilon: "C57 C58",
    broken.mixing_feed_forward: "C09 C56 C59 C75 C76",
    broken.levelled_parts: "C04 C05 C56",
    broken.blind_pooling: "C06 C60 C68",
    broken.restless_embedding: "C06 C12",
    broken.tiny_start: "C26 C61 C77 C86",
    broken.no_learning: "C13 C15 C86 C94",
    broken.lopsided_numbers: "C31",
    broken.another_base_model: "C88 C90",
    broken.blocks_without_attention: "C88 C98",
    broken.whole_lines: "C95 C96",
}


@pytest.mark.parametrize("breaker", NOTICED, ids=lambda breaker: breaker.__name__)
def test_a_broken_mechanism_changes_the_verdict(
    breaker: Breaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = NOTICED[breaker].split()
    before = {id_: outcome_of(id_).verdict for id_ in wanted}
    breaker(monkeypatch)
    with as_users_run_it():
        after = {id_: claims()[id_].run().verdict for id_ in wanted}
    assert [id_ for id_ in wanted if after[id_] == before[id_]] == []


def test_most_claims_notice_something() -> None:
    noticing = {id_ for ids in NOTICED.values() for id_ in ids.split()}
    assert len(noticing) > 0.7 * len(QUICK)
