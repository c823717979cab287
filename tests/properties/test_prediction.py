"""mc_predict on random networks: however it is cut, permuted or repeated, the same masks give the same prediction."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import random_network, seeds

from concrete_dropout import freeze, mc_predict, mc_sampling, swap_dropout


@given(seeds, st.integers(1, 9), st.integers(1, 6), st.integers(1, 6), st.sampled_from(["fixed", "concrete"]))
def test_cuts_do_not_matter(seed: int, samples: int, batch_rows: int, batch_samples: int, kind: str) -> None:
    model, x = random_network(seed)
    swap_dropout(model, kind, example_input=x)
    whole = mc_predict(model, x, "categorical", samples, seed=seed)
    cut = mc_predict(model, x, "categorical", samples, seed=seed, batch_rows=batch_rows, batch_samples=batch_samples)
    torch.testing.assert_close(cut.probabilities, whole.probabilities, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(cut.expected_entropy, whole.expected_entropy, rtol=1e-4, atol=1e-5)


@given(seeds, st.integers(1, 9))
def test_it_is_the_plain_loop_and_leaves_the_model_alone(seed: int, samples: int) -> None:
    model, x = random_network(seed)
    swap_dropout(model, "concrete", init_p=0.3, example_input=x)
    modes, state = [m.training for m in model.modules()], {k: v.clone() for k, v in model.state_dict().items()}
    prediction = mc_predict(model, x, "categorical", samples, seed=seed)
    with torch.no_grad(), mc_sampling(model, seed=seed):
        passes = torch.stack([torch.softmax(model(x).double(), dim=1) for _ in range(samples)])
    torch.testing.assert_close(prediction.probabilities.double(), passes.mean(0), rtol=1e-4, atol=1e-5)
    assert modes == [m.training for m in model.modules()]
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


@given(seeds)
def test_function_draws_do_not_depend_on_the_order_of_rows(seed: int) -> None:
    model, x = random_network(seed)
    swap_dropout(model, "concrete", init_p=0.3, example_input=x)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    one, other = (mc_predict(model, rows, "categorical", 4, seed=seed, frozen_masks=True) for rows in (x, x[order]))
    torch.testing.assert_close(other.probabilities, one.probabilities[order], rtol=1e-4, atol=1e-5)


@given(seeds)
def test_a_frozen_copy_predicts_the_same_without_dropout(seed: int) -> None:
    model, x = random_network(seed)
    swap_dropout(model, "concrete", init_p=(0.05, 0.6), example_input=x)
    torch.testing.assert_close(freeze(model).eval()(x), model.eval()(x))
