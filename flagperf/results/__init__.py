"""A round's folder → Result → Summary: figures, monitors and verdict, from files alone. Nothing here reaches a host."""
