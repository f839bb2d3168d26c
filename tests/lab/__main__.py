"""`python -m tests.lab list` shows the labs on this machine; `clean [PREFIX...]` removes those named, or all, kept
ones too, whose owners have ended."""

import sys

from tests.lab import registry


def main(arguments: list[str]) -> int:
    match arguments:
        case ["list"]:
            for record in registry.records():
                owner = "running" if record.owner_alive else "kept" if record.kept else "abandoned"
                print(f"{record.prefix}  {owner}  {record.directory}")
            return 0
        case ["clean", *prefixes]:
            for record in registry.remove_labs(lambda record: not prefixes or record.prefix in prefixes):
                print(f"removed {record.prefix}  {record.directory}")
            return 0
        case _:
            print("usage: python -m tests.lab list | clean [PREFIX...]", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
