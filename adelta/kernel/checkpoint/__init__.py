"""What checkpoints hold and how their rows are laid out (PROTOCOL.md, "Checkpoints")."""
