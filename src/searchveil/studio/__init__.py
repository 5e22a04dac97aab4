"""How do people decide? A local web page: thin, it calls what the command line calls."""
