"""`python -m searchveil` is the command too."""

from searchveil.cli import main

if __name__ == "__main__":
    main()
