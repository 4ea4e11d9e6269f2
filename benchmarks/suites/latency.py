def latency(options): yield from ()
