"""GLM-large fine-tuned on SuperGLUE ReCoRD: fill the blank of a question with one of the entities of its passage."""
