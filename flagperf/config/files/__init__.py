"""Which files make a configuration, and how they are laid over each other. Only here Hydra composes."""
