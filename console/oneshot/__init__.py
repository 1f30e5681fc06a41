"""The commands without a screen: ps, gpus, audit, doctor, pause, resume, stop, kill. Same code paths as the console."""
