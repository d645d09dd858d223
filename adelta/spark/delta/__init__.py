"""The API of delta-spark: `DeltaTable`, its builders, and the package ``delta``."""
