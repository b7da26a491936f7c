"""What other projects ask for. Only the verbs import from here."""
