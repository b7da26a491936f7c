"""Language models that are trained from scratch: the next token of documents that follow each other without gaps."""
