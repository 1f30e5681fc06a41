"""The host's side: sent as source over the channel; Python >= 3.9, the standard library, pynvml and psutil."""
