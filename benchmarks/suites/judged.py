def judged(options): yield from ()
