"""The same pre-training on PaddlePaddle. Shards, their conversion and sample data are those of cases/bert."""
