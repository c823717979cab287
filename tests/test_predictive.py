"""mc_predict and its accumulators against stacked float64 references."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import torch
from benchmarks.timing import peak_bytes
from torch import Tensor, nn

from concrete_dropout import (
    CategoricalAccumulator,
    ConcreteDropout,
    ConcreteDropout2d,
    GaussianAccumulator,
    mc_predict,
    mc_sampling,
)

ROWS, SAMPLES = 7, 12


class Regressor(nn.Module):
    """(mean, log variance), each of ``outputs`` numbers."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), ConcreteDropout(0.3), nn.Linear(16, 16), nn.Dropout(0.2))
        self.mean, self.log_var = nn.Linear(16, outputs), nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.mean(h), self.log_var(h)


def classifier() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 5))


def segmenter() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), ConcreteDropout2d(0.4), nn.Conv2d(4, 3, 1))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(ROWS, 3)


def loop(model: nn.Module, *inputs: Tensor, samples: int = SAMPLES, **arguments: Any) -> Any:
    """The stacked outputs of plain passes, in float64."""
    with torch.no_grad(), mc_sampling(model, seed=0, **arguments):
        outputs = [model(*inputs) for _ in range(samples)]
    if isinstance(outputs[0], Tensor):
        return torch.stack(outputs).double()
    return tuple(torch.stack(part).double() for part in zip(*outputs, strict=True))


def assert_close(actual: Tensor, reference: Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    torch.testing.assert_close(actual.double(), reference, rtol=rtol, atol=atol)


def assert_same_prediction(actual: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    assert type(actual) is type(expected)
    for field in fields(expected):
        a, b = getattr(actual, field.name), getattr(expected, field.name)
        if b is None:
            assert a is None
        else:
            torch.testing.assert_close(
                a, b, rtol=rtol, atol=atol, equal_nan=True, msg=lambda t, f=field: f"{f.name}: {t}"
            )


# -- Gaussian ----------------------------------------------------------------------------------------------------


def test_gaussian_moments(x: Tensor) -> None:
    model = Regressor()
    mean, log_var = loop(model, x)
    prediction = mc_predict(model, x, "gaussian", SAMPLES, seed=0)
    assert_close(prediction.mean, mean.mean(0))
    assert_close(prediction.epistemic, mean.var(0, unbiased=False))
    assert_close(prediction.aleatoric, log_var.exp().mean(0))
    assert_close(prediction.predictive, mean.var(0, unbiased=False) + log_var.exp().mean(0))
    assert prediction.log_likelihood is None


@pytest.mark.parametrize("outputs", [1, 2])
def test_gaussian_log_likelihood(x: Tensor, outputs: int) -> None:
    """A row's density is the product over its outputs; the mixture is over samples, row by row."""
    model, y = Regressor(outputs), torch.randn(ROWS, outputs)
    mean, log_var = loop(model, x)
    component = torch.distributions.Normal(mean, (0.5 * log_var).exp()).log_prob(y.double()).sum(-1)
    reference = torch.logsumexp(component, 0) - math.log(SAMPLES)
    prediction = mc_predict(model, x, "gaussian", SAMPLES, targets=y, seed=0)
    assert prediction.log_likelihood.shape == (ROWS,)
    assert_close(prediction.log_likelihood, reference)


def test_gaussian_log_likelihood_of_maps() -> None:
    """Outputs with several dimensions: one log-likelihood per row."""
    mean, log_var, y = torch.randn(4, 3, 2, 5), torch.randn(4, 3, 1, 5), torch.randn(3, 2, 5)
    accumulator = GaussianAccumulator(y)
    accumulator.update(mean, log_var)
    component = torch.distributions.Normal(mean.double(), (0.5 * log_var.double()).exp()).log_prob(y.double())
    reference = torch.logsumexp(component.flatten(2).sum(2), 0) - math.log(4)
    assert_close(accumulator.compute().log_likelihood, reference)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("batch_samples", [1, 5, None])
def test_pit_is_the_mixtures_distribution_function(x: Tensor, outputs: int, batch_samples: int | None) -> None:
    model, y = Regressor(outputs), torch.randn(ROWS, outputs)
    mean, log_var = loop(model, x)
    reference = torch.distributions.Normal(mean, (0.5 * log_var).exp()).cdf(y.double()).mean(0)
    prediction = mc_predict(model, x, "gaussian", SAMPLES, targets=y, seed=0, batch_samples=batch_samples)
    assert prediction.pit.shape == (ROWS, outputs)
    assert_close(prediction.pit, reference)
    assert mc_predict(model, x, "gaussian", SAMPLES, seed=0).pit is None
    by_rows = mc_predict(model, x, "gaussian", SAMPLES, targets=y, seed=0, batch_rows=3)
    assert_close(by_rows.pit, reference)


def test_pit_with_shared_noise_and_one_pass() -> None:
    model, x, y = nn.Linear(3, 2), torch.randn(ROWS, 3), torch.randn(ROWS, 2)
    log_var = torch.tensor([-1.0, 2.0])
    prediction = mc_predict(model, x, "gaussian", 0, targets=y, log_var=log_var)
    reference = torch.distributions.Normal(model(x).double(), (0.5 * log_var.double()).exp()).cdf(y.double())
    assert_close(prediction.pit, reference.detach())


def test_pit_of_targets_from_the_mixture_is_uniform() -> None:
    """Targets drawn from the prediction itself: the PIT's mean is 1/2 and its variance 1/12, within 5 errors."""
    rows, generator = 20_000, torch.Generator().manual_seed(0)
    mean, log_var = torch.randn(3, rows, generator=generator), torch.randn(3, rows, generator=generator)
    component = torch.randint(3, (1, rows), generator=generator)
    noise = torch.randn(rows, generator=generator)
    y = mean.gather(0, component)[0] + (0.5 * log_var).exp().gather(0, component)[0] * noise
    accumulator = GaussianAccumulator(y)
    accumulator.update(mean[:1], log_var[:1])
    accumulator.update(mean[1:], log_var[1:])
    pit = accumulator.compute().pit.double()
    assert pit.mean().item() == pytest.approx(1 / 2, abs=5 * math.sqrt(1 / 12 / rows))
    assert pit.var().item() == pytest.approx(1 / 12, abs=5 * math.sqrt(1 / 180 / rows))


def test_pit_far_away_is_0_or_1() -> None:
    accumulator = GaussianAccumulator(torch.tensor([-1e6, 1e6]))
    accumulator.update(torch.zeros(3, 2), torch.full((3, 2), -50.0))
    assert accumulator.compute().pit.tolist() == [0.0, 1.0]


def test_gaussian_log_likelihood_does_not_underflow() -> None:
    accumulator = GaussianAccumulator(torch.tensor([1e4]))
    accumulator.update(torch.zeros(3, 1), torch.zeros(3, 1))
    expected = -0.5 * (math.log(2 * math.pi) + 1e8)
    assert accumulator.compute().log_likelihood.item() == pytest.approx(expected, rel=1e-6)


def test_one_dimensional_outputs(x: Tensor) -> None:
    class Flat(Regressor):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            mean, log_var = super().forward(x)
            return mean[:, 0], log_var[:, 0]

    model, y = Flat(), torch.randn(ROWS)
    mean, log_var = loop(model, x)
    prediction = mc_predict(model, x, "gaussian", SAMPLES, targets=y, seed=0)
    component = torch.distributions.Normal(mean, (0.5 * log_var).exp()).log_prob(y.double())
    assert_close(prediction.log_likelihood, torch.logsumexp(component, 0) - math.log(SAMPLES))
    assert prediction.mean.shape == (ROWS,)


def test_aleatoric_is_the_mean_of_variances() -> None:
    accumulator = GaussianAccumulator()
    log_var = torch.tensor([-4.0, 4.0]).view(2, 1, 1)
    accumulator.update(torch.zeros(2, 1, 1), log_var)
    assert accumulator.compute().aleatoric.item() == pytest.approx((math.exp(4) + math.exp(-4)) / 2)


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("offset", [1e4, -1e5])
def test_variances_survive_large_means(offset: float, chunk: int) -> None:
    """E[x^2] - E[x]^2 in float32 would leave nothing: 1e8 against 1e-2."""
    mean = (offset + torch.randn(100, 4, 2) * (0.5 if abs(offset) > 5e4 else 0.1)).float()
    accumulator = GaussianAccumulator()
    for part in mean.split(chunk):
        accumulator.update(part)
    prediction = accumulator.compute()
    assert_close(prediction.mean, mean.double().mean(0), rtol=1e-6)
    assert_close(prediction.epistemic, mean.double().var(0, unbiased=False), rtol=0.02)
    assert (prediction.epistemic > 0).all()


def test_constant_means_have_no_variance() -> None:
    accumulator = GaussianAccumulator()
    for _ in range(50):
        accumulator.update(torch.full((1, 3, 1), 12345.678))
    assert (accumulator.compute().epistemic == 0).all()


def test_shared_log_var(x: Tensor) -> None:
    model, y = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2)), torch.randn(ROWS, 2)
    mean = loop(model, x)
    for log_var in (torch.tensor(-1.0), torch.tensor([0.5, -2.0])):
        prediction = mc_predict(model, x, "gaussian", SAMPLES, targets=y, log_var=log_var, seed=0, batch_rows=3)
        sigma = (0.5 * log_var.double()).exp()
        component = torch.distributions.Normal(mean, sigma).log_prob(y.double()).sum(-1)
        assert_close(prediction.aleatoric, sigma.square().expand(ROWS, 2))
        assert_close(prediction.log_likelihood, torch.logsumexp(component, 0) - math.log(SAMPLES))


def test_shared_log_var_per_row_is_cut_like_the_rows(x: Tensor) -> None:
    model, log_var = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2)), torch.randn(ROWS, 2)
    whole = mc_predict(model, x, "gaussian", SAMPLES, log_var=log_var, seed=0)
    assert_close(whole.aleatoric, log_var.double().exp())
    cut = mc_predict(model, x, "gaussian", SAMPLES, log_var=log_var, seed=0, batch_rows=3)
    assert_same_prediction(cut, whole)


def test_two_sources_of_noise_are_refused(x: Tensor) -> None:
    """A model that returns its own log variance leaves no use for another: ignoring one hides a mistake."""
    with pytest.raises(ValueError, match="log_var"):
        mc_predict(Regressor(), x, "gaussian", 3, log_var=torch.zeros(2))


def test_mean_only(x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    mean = loop(model, x)
    prediction = mc_predict(model, x, "gaussian", SAMPLES, seed=0)
    assert (prediction.aleatoric == 0).all()
    assert_close(prediction.predictive, mean.var(0, unbiased=False))
    with pytest.raises(ValueError, match="a log-likelihood needs the noise"):
        mc_predict(model, x, "gaussian", SAMPLES, targets=torch.zeros(ROWS, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_gaussian_dtypes(dtype: torch.dtype) -> None:
    """Narrow outputs are averaged in float32, float64 in float64."""
    mean, log_var = torch.randn(50, 3, 2).to(dtype), torch.randn(50, 3, 2).to(dtype)
    y = torch.randn(3, 2).to(dtype)
    accumulator = GaussianAccumulator(y)
    for m, v in zip(mean.split(7), log_var.split(7), strict=True):
        accumulator.update(m, v)
    prediction = accumulator.compute()
    assert prediction.mean.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_close(prediction.mean, mean.double().mean(0))
    assert_close(prediction.epistemic, mean.double().var(0, unbiased=False))
    assert_close(prediction.aleatoric, log_var.double().exp().mean(0))
    component = torch.distributions.Normal(mean.double(), (0.5 * log_var.double()).exp()).log_prob(y.double())
    assert_close(prediction.log_likelihood, torch.logsumexp(component.sum(-1), 0) - math.log(50))


# -- categorical -------------------------------------------------------------------------------------------------


def categorical_reference(logits: Tensor, targets: Tensor | None = None) -> dict[str, Tensor]:
    """From logits (S, rows, classes, ...) in float64."""
    p = torch.softmax(logits, 2)
    mean = p.mean(0)
    predictive = torch.special.entr(mean).sum(1)
    expected = torch.special.entr(p).sum(2).mean(0)
    reference = {
        "probabilities": mean,
        "mean": mean,
        "predictive_entropy": predictive,
        "predictive": predictive,
        "expected_entropy": expected,
        "aleatoric": expected,
        "mutual_information": predictive - expected,
        "epistemic": predictive - expected,
    }
    if targets is not None:
        reference["log_likelihood"] = mean.gather(1, targets.unsqueeze(1)).squeeze(1).log()
    return reference


def test_categorical_moments(x: Tensor) -> None:
    model, y = classifier(), torch.randint(5, (ROWS,))
    prediction = mc_predict(model, x, "categorical", SAMPLES, targets=y, seed=0)
    for name, reference in categorical_reference(loop(model, x), y).items():
        assert_close(getattr(prediction, name), reference)
    assert (prediction.mutual_information >= 0).all()


def test_segmentation() -> None:
    model, image, y = segmenter(), torch.randn(3, 1, 4, 6), torch.randint(3, (3, 4, 6))
    prediction = mc_predict(model, image, "categorical", SAMPLES, targets=y, seed=0)
    assert prediction.probabilities.shape == (3, 3, 4, 6)
    assert prediction.mutual_information.shape == prediction.log_likelihood.shape == (3, 4, 6)
    for name, reference in categorical_reference(loop(model, image), y).items():
        assert_close(getattr(prediction, name), reference)


def test_probabilities_are_averaged_not_logits() -> None:
    logits = torch.tensor([[[4.0, 0.0]], [[-1.0, 0.0]]])
    accumulator = CategoricalAccumulator()
    accumulator.update(logits)
    p = accumulator.compute().probabilities[0, 0].item()
    assert p == pytest.approx((torch.sigmoid(torch.tensor(4.0)) + torch.sigmoid(torch.tensor(-1.0))).item() / 2)
    assert p != pytest.approx(torch.sigmoid(torch.tensor(1.5)).item(), abs=0.05)


def test_void_targets_are_nan_and_touch_nothing_else(x: Tensor) -> None:
    model, y = classifier(), torch.tensor([0, -1, 2, 255, 4, -100, 5])
    prediction = mc_predict(model, x, "categorical", SAMPLES, targets=y, seed=0, batch_rows=4)
    void = torch.tensor([False, True, False, True, False, True, True])
    assert torch.equal(prediction.log_likelihood.isnan(), void)
    reference = categorical_reference(loop(model, x), y.clamp(0, 4))
    assert_close(prediction.log_likelihood[~void], reference["log_likelihood"][~void])
    assert_close(prediction.probabilities, reference["probabilities"])


def test_masked_classes() -> None:
    """Logits of minus infinity: probability 0, no NaN, and an impossible target is impossible."""
    logits = torch.randn(6, 4, 3)
    logits[..., 1] = -math.inf
    targets = torch.tensor([0, 1, 2, 1])
    accumulator = CategoricalAccumulator(targets)
    for part in logits.split(4):
        accumulator.update(part)
    prediction = accumulator.compute()
    for name, reference in categorical_reference(logits.double(), targets).items():
        assert_close(getattr(prediction, name), reference)
    assert (prediction.probabilities[:, 1] == 0).all()
    assert (prediction.log_likelihood[[1, 3]] == -math.inf).all()


def test_confident_samples_that_contradict_each_other() -> None:
    logits = torch.tensor([[[200.0, 0.0, 0.0]], [[0.0, 200.0, 0.0]]])
    accumulator = CategoricalAccumulator(torch.tensor([2]))
    accumulator.update(logits)
    prediction = accumulator.compute()
    assert prediction.mutual_information.item() == pytest.approx(math.log(2))
    assert prediction.expected_entropy.item() == pytest.approx(0, abs=1e-6)
    assert prediction.log_likelihood.item() == pytest.approx(
        -200, rel=1e-6
    )  # log of the mean underflows, this does not


def test_mutual_information_is_not_negative_where_samples_agree() -> None:
    accumulator = CategoricalAccumulator()
    logits = torch.randn(1, 1000, 10) * 5
    for _ in range(100):
        accumulator.update(logits)
    assert (accumulator.compute().mutual_information >= 0).all()


# -- chunks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [3, 3, 4], [9, 1], [1, 9]])
def test_accumulators_do_not_care_for_chunks(sizes: list[int]) -> None:
    mean, log_var, logits = torch.randn(10, 4, 2) + 3, torch.randn(10, 4, 2), torch.randn(10, 4, 3)
    whole, parts = GaussianAccumulator(torch.zeros(4, 2)), GaussianAccumulator(torch.zeros(4, 2))
    whole.update(mean, log_var)
    for m, v in zip(mean.split(sizes), log_var.split(sizes), strict=True):
        parts.update(m, v)
    assert_same_prediction(parts.compute(), whole.compute())
    y = torch.tensor([0, 1, 2, -1])
    whole, parts = CategoricalAccumulator(y), CategoricalAccumulator(y)  # type: ignore[assignment]
    whole.update(logits)
    for part in logits.split(sizes):
        parts.update(part)
    assert_same_prediction(parts.compute(), whole.compute())


def test_accumulators_leave_what_they_are_fed_alone() -> None:
    for accumulator, fed in (
        (GaussianAccumulator(torch.zeros(4, 3)), (torch.randn(5, 4, 3), torch.randn(5, 4, 3))),
        (CategoricalAccumulator(torch.zeros(4).long()), (torch.randn(5, 4, 3),)),
    ):
        copies = [tensor.clone() for tensor in fed]
        accumulator.update(*fed)
        first = accumulator.compute()
        values = [getattr(first, field.name).clone() for field in fields(first)]
        accumulator.update(*fed)
        assert all(torch.equal(a, b) for a, b in zip(fed, copies, strict=True))
        assert all(torch.equal(getattr(first, f.name), v) for f, v in zip(fields(first), values, strict=True))
        with pytest.raises(FrozenInstanceError):
            first.log_likelihood = None


CUTS = [
    {"batch_rows": 1},
    {"batch_rows": 3},
    {"batch_rows": 100},
    {"batch_samples": 1},
    {"batch_samples": 5},
    {"batch_samples": 100},
    {"batch_rows": 2, "batch_samples": 4},
]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("mask", ["concrete", "bernoulli"])
def test_cuts_do_not_change_predictions(x: Tensor, cut: dict[str, int], frozen: bool, mask: Any) -> None:
    shared: dict[str, Any] = {"seed": 3, "frozen_masks": frozen, "mask": mask}
    model, y = Regressor(), torch.randn(ROWS, 2)
    whole = mc_predict(model, x, "gaussian", SAMPLES, targets=y, **shared)
    assert_same_prediction(mc_predict(model, x, "gaussian", SAMPLES, targets=y, **shared, **cut), whole)
    images, labels = torch.randn(4, 1, 4, 4), torch.randint(3, (4, 4, 4))
    net = segmenter()
    whole = mc_predict(net, images, "categorical", SAMPLES, targets=labels, **shared)
    assert_same_prediction(mc_predict(net, images, "categorical", SAMPLES, targets=labels, **shared, **cut), whole)


def test_seeds(x: Tensor) -> None:
    model = Regressor()
    first = mc_predict(model, x, "gaussian", SAMPLES, seed=0)
    assert_same_prediction(mc_predict(model, x, "gaussian", SAMPLES, seed=0), first, rtol=0, atol=0)
    assert not torch.equal(mc_predict(model, x, "gaussian", SAMPLES, seed=1).mean, first.mean)
    torch.manual_seed(4)
    free, other = (mc_predict(model, x, "gaussian", SAMPLES) for _ in range(2))
    assert not torch.equal(free.mean, other.mean)
    torch.manual_seed(4)
    assert_same_prediction(mc_predict(model, x, "gaussian", SAMPLES), free, rtol=0, atol=0)


def test_more_samples_continue_the_same_sequence(x: Tensor) -> None:
    model = Regressor()
    mean, _ = loop(model, x, samples=30)
    for samples in (1, 2, 30):
        assert_close(mc_predict(model, x, "gaussian", samples, seed=0).mean, mean[:samples].mean(0))


def test_duplicated_rows_under_frozen_masks_agree(x: Tensor) -> None:
    model = Regressor()
    doubled = torch.cat([x, x.flip(0)])
    prediction = mc_predict(model, doubled, "gaussian", SAMPLES, seed=0, frozen_masks=True, batch_rows=5)
    for value in (prediction.mean, prediction.epistemic, prediction.aleatoric):
        torch.testing.assert_close(value[:ROWS], value[ROWS:].flip(0))
    free = mc_predict(model, doubled, "gaussian", SAMPLES, seed=0)
    assert not torch.allclose(free.mean[:ROWS], free.mean[ROWS:].flip(0))


def test_bernoulli_masks_against_the_loop(x: Tensor) -> None:
    model = Regressor()
    mean, _ = loop(model, x, mask="bernoulli")
    assert_close(mc_predict(model, x, "gaussian", SAMPLES, seed=0, mask="bernoulli").mean, mean.mean(0))
    assert not torch.allclose(mean.mean(0).float(), mc_predict(model, x, "gaussian", SAMPLES, seed=0).mean, atol=1e-5)


# -- inputs and modes --------------------------------------------------------------------------------------------


def test_several_inputs(x: Tensor) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right, self.drop = nn.Linear(3, 4), nn.Embedding(5, 4), nn.Dropout(0.5)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.drop(self.left(a) * self.right(b))

    model, ids = Two(), torch.randint(5, (ROWS,))
    reference = loop(model, x, ids).mean(0)
    for inputs in ((x, ids), [x, ids]):
        for batch_rows in (None, 3):
            assert_close(mc_predict(model, inputs, "gaussian", SAMPLES, seed=0, batch_rows=batch_rows).mean, reference)


def test_no_samples_is_the_deterministic_pass(x: Tensor) -> None:
    model, y = Regressor().train(), torch.randn(ROWS, 2)
    prediction = mc_predict(model, x, "gaussian", samples=0, targets=y)
    assert model.training
    with torch.no_grad():
        mean, log_var = model.eval()(x)
    assert torch.equal(prediction.mean, mean)
    assert (prediction.epistemic == 0).all()
    assert torch.equal(prediction.aleatoric, log_var.exp())
    density = torch.distributions.Normal(mean.double(), (0.5 * log_var.double()).exp()).log_prob(y.double()).sum(-1)
    assert_close(prediction.log_likelihood, density)
    categorical = mc_predict(classifier(), x, "categorical", samples=0)
    assert (categorical.mutual_information == 0).all()


def test_a_model_without_dropout(x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()
    prediction = mc_predict(model, x, "categorical", samples=20, targets=torch.zeros(ROWS).long())
    with torch.no_grad():
        reference = torch.softmax(model.eval()(x), 1)
    torch.testing.assert_close(prediction.probabilities, reference)
    torch.testing.assert_close(prediction.log_likelihood, reference[:, 0].log())


def state_of(model: nn.Module) -> list[Any]:
    return [
        (m.training, vars(m).get("forward"), len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()
    ]


@pytest.mark.parametrize("samples", [0, 1, 5])
def test_modes_and_random_state_are_left_alone(x: Tensor, samples: int) -> None:
    model = Regressor().train()
    model.body[0].eval()
    before, random_state = state_of(model), torch.get_rng_state()
    prediction = mc_predict(model, x, "gaussian", samples, seed=0)
    assert state_of(model) == before
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.is_grad_enabled()
    assert not prediction.mean.requires_grad


@pytest.mark.parametrize(
    ("make", "targets", "message"),
    [
        (classifier, torch.zeros(ROWS, 2), "targets .* must have the shape of the mean"),
        (lambda: nn.Sequential(classifier(), nn.Flatten(0)), None, "one row per input row"),
    ],
)
def test_everything_is_put_back_after_an_error(
    x: Tensor, make: Callable[[], nn.Module], targets: Tensor | None, message: str
) -> None:
    model = make().train()
    before = state_of(model)
    with pytest.raises(ValueError, match=message) as info:
        mc_predict(model, x, "gaussian", 5, targets=targets, log_var=torch.zeros(()))
    assert info.tb is not None  # the traceback keeps the frames alive
    assert state_of(model) == before
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_predictions_made_in_inference_mode(x: Tensor) -> None:
    model = Regressor()
    expected = mc_predict(model, x, "gaussian", SAMPLES, seed=0)
    with torch.inference_mode():
        inside = mc_predict(model, x.clone(), "gaussian", SAMPLES, seed=0)
    assert_same_prediction(inside, expected)


# -- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"likelihood": "poisson"}, r"likelihood='poisson' must be one of gaussian, categorical"),
        ({"samples": -1}, r"samples=-1 must be 0"),
        ({"batch_rows": 0}, r"batch_rows=0 must be at least 1"),
        ({"batch_samples": 0}, r"batch_samples=0 must be at least 1"),
        ({"x": torch.zeros(0, 3)}, r"x must have rows"),
        ({"x": torch.zeros(())}, r"x must have rows"),
        ({"x": ()}, r"x must have rows"),
        ({"x": (torch.zeros(3, 3), torch.zeros(4, 3))}, r"x must have rows, the same number in each part"),
        ({"targets": torch.zeros(3, 2)}, r"targets have \(3,\) rows where x has \(7,\)"),
        ({"targets": torch.zeros(ROWS)}, r"targets \(7,\) must have the shape of the mean \(7, 2\)"),
        ({"mask": "soft"}, r"mask='soft' must be one of concrete, bernoulli"),
        ({"mask": "soft", "samples": 0}, r"mask='soft' must be one of concrete, bernoulli"),
        ({"likelihood": "categorical"}, r'likelihood="categorical" must return logits'),
    ],
)
def test_refused_arguments(x: Tensor, arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"x": x, "likelihood": "gaussian", "samples": 3, **arguments}
    with pytest.raises(ValueError, match=message):
        mc_predict(Regressor(), **given)


def test_categorical_targets_of_the_wrong_shape(x: Tensor) -> None:
    with pytest.raises(ValueError, match=r"must be one class per logit vector"):
        mc_predict(classifier(), x, "categorical", 3, targets=torch.zeros(ROWS, 1).long())


def test_outputs_that_are_no_distribution(x: Tensor) -> None:
    class Three(Regressor):
        def forward(self, x: Tensor) -> Any:
            return (*super().forward(x), x)

    class Named(Regressor):
        def forward(self, x: Tensor) -> Any:
            return dict(zip(("mean", "log_var"), super().forward(x), strict=True))

    for model in (Three(), Named()):
        with pytest.raises(ValueError, match=r'likelihood="gaussian" must return \(mean, log_var\)'):
            mc_predict(model, x, "gaussian", 3)
    with pytest.raises(ValueError, match=r"must return logits \(rows, classes"):
        mc_predict(nn.Sequential(classifier(), nn.Linear(5, 1), nn.Flatten(0)), x, "categorical", 3)


def test_nothing_accumulated_yet() -> None:
    for accumulator in (GaussianAccumulator(), CategoricalAccumulator()):
        with pytest.raises(ValueError, match="no samples were added yet"):
            accumulator.compute()


# -- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("batch_samples", [None, 1, 5])
def test_memory_does_not_grow_with_samples(batch_samples: int | None, frozen: bool) -> None:
    images, labels = torch.randn(4, 1, 16, 16), torch.randint(3, (4, 16, 16))
    points, y = torch.randn(200, 3), torch.randn(200, 2)

    def peak(model: nn.Module, likelihood: Any, samples: int, x: Tensor, targets: Tensor) -> int:
        options: dict[str, Any] = {"seed": 0, "batch_samples": batch_samples, "frozen_masks": frozen}
        return peak_bytes(lambda: mc_predict(model, x, likelihood, samples, targets=targets, **options))

    # Windows of fewer than 300 samples here: from 601 on, every kind of window has been seen.
    for model, likelihood, x, targets in (
        (segmenter(), "categorical", images, labels),
        (Regressor(), "gaussian", points, y),
    ):
        few, many = (peak(model, likelihood, samples, x, targets) for samples in (601, 1201))
        assert many <= 1.02 * few
