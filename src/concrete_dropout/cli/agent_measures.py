"""The numbers of an episode: for tables and loggers, and for control.json."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from concrete_dropout.callbacks.network import active_layers
from concrete_dropout.control import Agent, Outcome
from concrete_dropout.control.measures import LEVELS, Foresight, many_steps, one_step

PARTICLES = 64  # of the predictions many steps ahead
SHOWN = 16  # of them, in control.json
DIGITS = 5


def measured(agent: Agent, outcome: Outcome) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics by name, and the entry of an episode in control.json.

    The model is measured on the episodes in which its policy was judged: whole ones, never trained on.
    """
    names, held_out = agent.world.state_names, outcome.judgement.episodes
    near = one_step(agent.task, agent.world.features, held_out, true_changes=agent.world.changes)
    far = many_steps(agent.task, agent.world.features, held_out, PARTICLES, seed=outcome.episode)
    returns = outcome.judgement.returns
    p = {row.module: row.p for row in active_layers(agent.task)}
    components = {
        name: {
            "error": float(near.error[i]),
            "observed_error": float(near.observed[i]),
            "epistemic": float(near.epistemic[i]),
            "aleatoric": float(near.aleatoric[i]),
            "ratio": float(near.ratio[i]),
        }
        for i, name in enumerate(names)
    }
    rivals = _rivals(agent, outcome)
    metrics = {
        "test/reward": float(returns.mean()),
        "test/reward_std": float(returns.std()),
        "test/model_reward": outcome.model_return,
        **{f"test/reward_{name}": value for name, value in rivals.items()},
        "test/honesty": typical(near.ratio),
        "test/honesty_observed": typical(near.epistemic / near.observed),
        "test/calibration_rmse": far.calibration_rmse,
        "test/num_train": float(agent.task.num_train),
        **{f"test/{key}_{name}": entry[key] for name, entry in components.items() for key in ("error", "epistemic")},
        **{f"p/{layer}": value for layer, value in p.items()},
    }
    entry = {
        "episode": outcome.episode,
        "num_train": agent.task.num_train,
        "reward": {"mean": metrics["test/reward"], "std": metrics["test/reward_std"], "starts": len(returns)},
        "rivals": rivals,
        "model_reward": outcome.model_return,
        "scout_acted": outcome.scout_acted,
        "scout_chosen": outcome.scout_chosen,
        "acted_return": outcome.acted_return,
        "p": p,
        "components": components,
        "honesty": metrics["test/honesty"],
        "honesty_observed": metrics["test/honesty_observed"],
        "far": _far(far, names),
    }
    return metrics, entry


def _rivals(agent: Agent, outcome: Outcome) -> dict[str, float]:
    """Mean true reward of the policy that function draws promise most of, and of the best scout of the mean model.

    The same starts for both, which differ from those that the chosen one is judged from. The agent does not see this.
    """
    policies = {"draws": agent.policy(outcome.promising)}
    if agent.scouts.best is not None:
        policies["scout"] = agent.scouts.best_policy()
    luck = [torch.Generator().manual_seed(outcome.episode) for _ in policies]
    return {
        name: float(agent.world.judge(policy, agent.settings.starts, generator).returns.mean())
        for (name, policy), generator in zip(policies.items(), luck, strict=True)
    }


def typical(ratios: Tensor) -> float:
    """The geometric mean of ratios; 0 where there is no epistemic uncertainty at all."""
    values = ratios.tolist()
    return math.exp(sum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0


def _far(far: Foresight, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "calibration_rmse": far.calibration_rmse,
        "expected": list(LEVELS),
        "observed": list(far.coverage),
        "spread": {name: _plain(far.spread[:, i]) for i, name in enumerate(names)},
        "error": {name: _plain(far.error[:, i]) for i, name in enumerate(names)},
        "bundles": [
            {"particles": _plain(bundle.particles[:, :SHOWN]), "observed": _plain(bundle.observed)}
            for bundle in far.bundles
        ],
    }


def _plain(values: Tensor) -> Any:
    """Nested lists of short numbers."""

    def short(value: Any) -> Any:
        return [short(entry) for entry in value] if isinstance(value, list) else float(f"{value:.{DIGITS}g}")

    return short(values.tolist())
