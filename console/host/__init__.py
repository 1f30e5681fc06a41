"""The operator's side of one host. Nothing here imports textual."""
