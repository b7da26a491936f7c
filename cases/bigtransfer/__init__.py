"""Fine-tuning of Big Transfer's networks: image classification that starts from the weights its authors published."""
