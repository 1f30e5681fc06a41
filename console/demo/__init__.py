"""`eagle3-console demo`: a throw-away SSH host on this machine with real processes. What is simulated says so."""
