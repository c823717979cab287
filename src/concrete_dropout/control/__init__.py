"""Learning to control: the cart-pole, policies, rollouts through a learned model, and the Deep PILCO loop."""

from concrete_dropout.control.agent import Agent, Outcome, explore
from concrete_dropout.control.cartpole import CartPole
from concrete_dropout.control.cartpole_env import CartPoleSwingUp, register
from concrete_dropout.control.gym_world import GymWorld
from concrete_dropout.control.policies import MLPPolicies, Population, RBFPolicies
from concrete_dropout.control.search import SearchSettings
from concrete_dropout.control.settings import AgentSettings
from concrete_dropout.control.worlds import CartPoleWorld, Judgement, World

__all__ = [
    "Agent",
    "AgentSettings",
    "CartPole",
    "CartPoleSwingUp",
    "CartPoleWorld",
    "GymWorld",
    "Judgement",
    "MLPPolicies",
    "Outcome",
    "Population",
    "RBFPolicies",
    "SearchSettings",
    "World",
    "explore",
    "register",
]
