"""Learning to control: the cart-pole, policies, rollouts through a learned model, and the Deep PILCO loop."""
