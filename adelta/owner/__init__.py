"""A commit owner: the service that decides which commits of the tables it owns count."""
