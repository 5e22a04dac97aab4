"""The pages: each handler reads a form, calls what the command line calls, and shows what came of it."""
