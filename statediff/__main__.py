"""`python -m statediff` is the command line."""

from statediff.cli.main import main

main()
