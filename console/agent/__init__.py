"""The host's side: sent as source over the channel, runs on Python >= 3.9 with the standard library, pynvml and psutil."""
