"""The teacher cache: teacher outputs on disk, keyed by the inputs' content."""
