"""The stages that make an EAGLE-3 draft model. This version has none yet: see `pipeline.cli`."""
