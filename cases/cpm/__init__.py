"""CPM, a Chinese GPT-2, fine-tuned on short conversations of a post and a reply."""
