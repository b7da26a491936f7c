"""wav2vec 2.0 base, pre-trained on LibriSpeech: tell the true sound of masked frames from others of the utterance."""
