"""What programs print: tables for people, JSON for other programs."""
