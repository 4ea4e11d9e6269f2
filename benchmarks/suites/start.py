def start(options): yield from ()
