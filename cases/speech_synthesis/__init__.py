"""Speech synthesis on LJ Speech: Tacotron 2 turns text into mel spectrograms, WaveGlow turns those into audio."""
