"""Fine-tuning of language models on GovReport: long reports, each with its summary."""
