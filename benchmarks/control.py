"""python benchmarks/control.py: the cart-pole agent's parts against plain ways to do the same.

1. Steps of the true dynamics per second: all states as one batch, against a loop over the gymnasium environment.
2. Iterations of policy search per second: all policies in one batch through function draws, against a loop over
   policies, each with its own rollout, gradient and optimiser step.
3. With --agent: a whole agent through train.py, in seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess  # nosec B404 # train.py with fixed words, and no shell
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from timing import interleaved_seconds, median_ratio, print_table, setting
from torch import Tensor

from concrete_dropout import swap_dropout
from concrete_dropout.control.cartpole import CartPole
from concrete_dropout.control.cartpole_env import ENV_ID, register
from concrete_dropout.control.policies import Population, RBFPolicies
from concrete_dropout.control.rollouts import rollout, spread, total_reward
from concrete_dropout.control.search import clipped
from concrete_dropout.control.worlds import CartPoleWorld
from concrete_dropout.models import SkipMLP
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks import DynamicsTask

ROOT = Path(__file__).parents[1]
EPISODE = 25


def environment_steps(batch: int, rounds: int) -> dict[str, Any]:
    """Steps per second of both; the loop makes one episode per round."""
    register()
    env = gym.make(ENV_ID)
    action = env.action_space.sample()
    system = CartPole()
    states, forces = system.start(batch, dtype=torch.float64), torch.zeros(batch, 1, dtype=torch.float64)

    def loop() -> None:
        env.reset(seed=0)
        for _ in range(EPISODE):
            env.step(action)

    def batched() -> None:
        system.step(states, forces)

    seconds = interleaved_seconds({"loop": loop, "batched": batched}, rounds)
    per_step = {"loop": [s / EPISODE for s in seconds["loop"]], "batched": [s / batch for s in seconds["batched"]]}
    return {
        "what": f"environment steps, batch {batch}",
        "loop_per_second": 1 / statistics.median(per_step["loop"]),
        "batched_per_second": 1 / statistics.median(per_step["batched"]),
        "ratio": median_ratio(per_step["loop"], per_step["batched"]),
        "goal": 1000.0,
    }


def search_iterations(policies: int, particles: int, rounds: int) -> dict[str, Any]:
    """Iterations per second of a population, and of its policies one after the other."""
    world = CartPoleWorld()
    num_inputs, num_outputs = world.features.number + 1, world.features.size
    network = swap_dropout(
        SkipMLP(num_inputs, num_outputs, hidden=(200, 200)), "concrete", example_input=torch.zeros(1, num_inputs)
    )
    scales = {"inputs": Affine.identity(num_inputs), "targets": Affine.identity(num_outputs)}
    task = DynamicsTask(network, num_train=100, noise="homoscedastic", mask="bernoulli", **scales)

    def make(size: int) -> tuple[Population, torch.optim.Optimizer]:
        population = RBFPolicies(world.features.number, world.limits, size=size, scale=world.feature_scale)
        return population, torch.optim.Adam(population.parameters())

    def iteration(population: Population, optimizer: torch.optim.Optimizer) -> None:
        start = spread(world.start(particles, torch.Generator().manual_seed(0)), population.size)
        with task.function_draws(particles, seed=0) as step:
            run = rollout(population.acting(), step, world.features, start, world.steps)
        returns: Tensor = total_reward(world.shaped_reward, run.states).mean(0)
        parameters = list(population.parameters())
        gradients = clipped(torch.autograd.grad(-returns.sum(), parameters), 100.0)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()

    together, alone = make(policies), [make(1) for _ in range(policies)]

    def batched() -> None:
        iteration(*together)

    def loop() -> None:
        for single in alone:
            iteration(*single)

    seconds = interleaved_seconds({"loop": loop, "batched": batched}, rounds)
    return {
        "what": f"search iterations, {policies} policies x {particles} particles",
        "loop_per_second": 1 / statistics.median(seconds["loop"]),
        "batched_per_second": 1 / statistics.median(seconds["batched"]),
        "ratio": median_ratio(seconds["loop"], seconds["batched"]),
        "goal": 6.0,
    }


def agent_seconds(episodes: int) -> float:
    """Wall time of python train.py experiment=cartpole, from its start to its report."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["experiment=cartpole", f"agent.episodes={episodes}", f"paths.output_dir={folder}"]
        command = [sys.executable, str(ROOT / "train.py"), *arguments]
        start = time.perf_counter()
        subprocess.run(command, check=True)  # nosec B603 # as above
        return time.perf_counter() - start


def main() -> None:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4096, help="states of a batch (default 4096)")
    parser.add_argument("--policies", type=int, default=16, help="policies of a population (default 16)")
    parser.add_argument("--particles", type=int, default=8, help="particles of a rollout (default 8)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each measurement (default 20)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    parser.add_argument("--agent", type=int, default=0, help="episodes of a whole agent (default 0: none)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = [
        environment_steps(options.batch, options.rounds),
        search_iterations(options.policies, options.particles, options.rounds),
    ]
    rows = [
        (
            result["what"],
            f"{result['loop_per_second']:,.4g}",
            f"{result['batched_per_second']:,.4g}",
            f"{result['ratio']:,.1f}x",
            f"{result['goal']:,.0f}x",
        )
        for result in results
    ]
    print(setting())
    print_table(("", "loop / s", "batched / s", "ratio", "goal"), rows)
    if options.agent:
        seconds = agent_seconds(options.agent)
        print(f"an agent of {options.agent} episodes: {seconds / 60:.1f} min (goal: 15 in 6 min on 2 idle cores)")
        results.append({"what": f"agent of {options.agent} episodes", "seconds": seconds})
    print(json.dumps({"benchmark": "control", "results": results}))


if __name__ == "__main__":
    main()
