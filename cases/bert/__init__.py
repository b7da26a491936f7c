"""BERT-large pre-training: masked words and next sentences of Wikipedia, from MLPerf's checkpoint on."""
