def memory(options): yield from ()
