def pages(options): yield from ()
