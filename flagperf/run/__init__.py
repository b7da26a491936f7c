"""Plan → Outcome: the phases of a round on all its nodes. Reads no figures and judges nothing."""
