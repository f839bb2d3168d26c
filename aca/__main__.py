"""`python -m aca`: the same as the console command."""

from aca.cli import main

main(prog_name="aca")
