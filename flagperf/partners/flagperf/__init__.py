"""FlagPerf: its checkout becomes a configuration, our results become its submission and pages."""
