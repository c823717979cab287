"""Which experiments of the paper there are, where their runs belong, and what a row of theirs has."""

from __future__ import annotations

from dataclasses import dataclass, field

SEED, SPLIT, EPISODE = "seed", "split", "episode"
# What tells repeats of one setting apart: means are over these.
REPEATS = (SEED, SPLIT, EPISODE)
# In front of a row: what it is about. Between the two: the experiment's own settings and scores.
HEAD = ("dropout", "p")
TAIL = (
    "settings",  # what else was changed, as one would type it
    "learned_p",  # layer=p, in the order of depth
    "converged",  # whether every learned p has; empty where none is learned, or nobody judged it
    "steps",  # optimiser steps
    "seconds",  # of the whole run, or of an agent's episode
    "replicas",  # models that were trained as one batch in these seconds
    "state",
    "started",
    "commit",
    "hardware",
    "command",
    "study",  # the command that made this run among others
)
# Masks per row and step in training: the paper has 1.
TRAIN_SAMPLES = {"train_samples": "task.train_samples"}
# What experiment=uci_table sets for each set: a KL weight other than 1 is no bound any more, and must be seen.
CHOSEN = {
    "length_scale": "dropout.length_scale",
    "noise": "task.noise",
    "kl_weight": "task.kl_weight",
    "min_noise": "task.min_noise",
}
# What says nothing of a run in which no p is learned.
OF_LEARNED_P = ("optim.p_lr",)
COMPONENTS = ("x", "x_dot", "theta", "theta_dot")
MNIST = "python train.py experiment=mnist seed=SEED"
# The paper's epochs and masks, and a heavier KL, which keeps p of the first layers up.
LONG = "trainer.max_epochs=500 trainer.check_val_every_n_epoch=500 task.train_samples=1 task.kl_weight=5"


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Args:
        name: of its CSV file.
        title: of its section.
        place: where it stands in the paper.
        command: that makes it, with Concrete dropout.
        controls: commands that make p = 0 and a fixed p.
        runs: names of experiments in conf/ whose runs belong here.
        settings: column -> config key that varies.
        scores: columns -> name of a metric; with a stage in front where that is not the test.
        repeat: what the mean is over.
        facts: column -> config key that sections beyond the paper need, whether or not it was changed.
        more: commands behind its other figures.
        has_patience: whether runs end when they get no better, each after a number of steps of its own.
    """

    name: str
    title: str
    place: str
    command: str
    controls: tuple[str, ...]
    runs: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    scores: dict[str, str] = field(default_factory=dict)
    repeat: str = SEED
    facts: dict[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    has_patience: bool = False

    @property
    def commands(self) -> tuple[str, ...]:
        """All that are behind its section."""
        return (self.command, *self.controls, *self.more)

    @property
    def is_agent(self) -> bool:
        """Whether rows are episodes."""
        return EPISODE in self.keys

    @property
    def is_open_end(self) -> bool:
        """Whether runs of one setting may have other numbers of steps."""
        return self.is_agent or self.has_patience

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that, with ``settings``, tell one row from another."""
        agent = (EPISODE,) if "reward" in self.scores else ()
        split = (SPLIT,) if self.repeat == SPLIT else ()
        return (*self.settings, *HEAD, *split, SEED, *agent)

    @property
    def columns(self) -> tuple[str, ...]:
        """The header of its CSV file."""
        return (*self.keys, *self.scores, *self.facts, *TAIL)


def _scores(*names: str) -> dict[str, str]:
    return {name.rpartition("/")[2]: name for name in names}


CLASSES = _scores("accuracy", "accuracy_no_mc", "log_likelihood", "ece", "calibration_rmse", "train/elbo")
PIXELS = _scores(
    "miou", "miou_no_mc", "accuracy", "log_likelihood", "log_likelihood_no_mc", "calibration_rmse", "ece", "brier"
)


def _controls(command: str, fixed: str = "dropout=fixed") -> tuple[str, ...]:
    return (f"{command} dropout=none", f"{command} {fixed}")


def _mnist(name: str, title: str, place: str, settings: dict[str, str]) -> Experiment:
    command = f"python train.py experiment={name}"
    return Experiment(name, title, place, command, _controls(command), (name,), settings, CLASSES)


def _uci(name: str, title: str, experiment: str, runs: tuple[str, ...]) -> Experiment:
    command = f"python train.py experiment={experiment}"
    return Experiment(
        name,
        title,
        "section 4.2 and appendix D",
        command,
        _controls(command),
        runs,
        settings={"set": "data.name"},
        scores=_scores("log_likelihood", "rmse", "log_likelihood_before_m_step", "crps", "calibration_rmse"),
        repeat=SPLIT,
        facts=TRAIN_SAMPLES | CHOSEN,
    )


EXPERIMENTS = (
    Experiment(
        name="synthetic",
        title="Synthetic data",
        place="section 4.1",
        command="python train.py experiment=synthetic_study",
        controls=_controls("python train.py experiment=synthetic_study"),
        runs=("synthetic", "synthetic_study"),
        settings={"num_data": "data.num_data"},
        scores=_scores(
            "epistemic_std", "aleatoric_std", "predictive_std", "log_likelihood", "rmse", "calibration_rmse"
        ),
        facts=TRAIN_SAMPLES,
    ),
    _uci("uci", "UCI regression", "uci_table", ("uci", "uci_table")),
    _uci("uci_rmse", "UCI regression, settings chosen for RMSE", "uci_rmse", ("uci_rmse",)),
    Experiment(
        name="mnist",
        title="MNIST: accuracy",
        place="section 4.3",
        command=MNIST,
        controls=_controls(MNIST),
        runs=("mnist",),
        scores=CLASSES,
        facts=TRAIN_SAMPLES,
        more=tuple(f"{command} {LONG}" for command in (MNIST, *_controls(MNIST))),
    ),
    _mnist("mnist_data_size", "MNIST: p and training-set size", "section 4.3", {"train_size": "data.train_size"}),
    _mnist("mnist_width", "MNIST: p and width", "section 4.3", {"hidden": "model.hidden"}),
    _mnist(
        "mnist_length_scale",
        "MNIST: length scale",
        "appendix, MNIST",
        {"length_scale": "dropout.length_scale"},
    ),
    Experiment(
        name="camvid",
        title="CamVid, FC-DenseNet-103",
        place="section 4.4",
        command="python train.py experiment=camvid seed=SEED",
        controls=_controls("python train.py experiment=camvid seed=SEED"),
        runs=("camvid",),
        scores=PIXELS,
        has_patience=True,
    ),
    Experiment(
        name="camvid_small",
        title="CamVid, a small FC-DenseNet for CPUs",
        place="section 4.4",
        command="python train.py experiment=camvid_table",  # with both controls
        controls=(),
        runs=("camvid_small", "camvid_table"),
        scores=PIXELS,
        facts={"p_lr": "optim.p_lr"},  # of which much depends: with a large one p may run to 1
        more=(
            "python train.py experiment=camvid_small 'study={grid:{dropout.init_p:[0.05,0.2,0.35,0.5]}}' test=false "
            "trainer.max_epochs=30 trainer.check_val_every_n_epoch=30",
        ),
    ),
    Experiment(
        name="cartpole",
        title="Cart-pole swing-up, Deep PILCO",
        place="section 4.5",
        command="python train.py experiment=cartpole_study",  # with both controls
        controls=(),
        runs=("cartpole", "cartpole_study"),
        scores=_scores(
            "reward",
            "reward_std",
            "starts",
            "num_train",
            "reward_draws",
            "reward_scout",
            "model_reward",
            "acted_return",
            "scout_acted",
            "scout_chosen",
            "honesty",
            "honesty_observed",
            "p_change",
            *(f"{what}_{name}" for what in ("error", "epistemic") for name in COMPONENTS),
        ),
    ),
)


def experiment_of(run: str) -> Experiment | None:
    """The experiment of the paper that a run's experiment in conf/ belongs to.

    >>> experiment_of("uci_table").name, experiment_of("digits")
    ('uci', None)
    """
    return next((experiment for experiment in EXPERIMENTS if run in experiment.runs), None)
