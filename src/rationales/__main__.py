"""`python -m rationales` is the command."""

from rationales.cli import main

if __name__ == "__main__":
    main()
