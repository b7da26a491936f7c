"""Images from texts: a network between embeddings of texts and latents of images, with rectified flow."""
