"""`nyala cluster certificates`: makes a CA and its certificates."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..cluster.admin.certificates import DAYS, authority_file, make_certificates

_ADVICE = "keep ca.key apart: with it, certificates of any role can be made"


def certificates_command(arguments: argparse.Namespace) -> int:
    """Make the missing files, and print the existing ones."""
    directory: Path = arguments.directory
    hosts = [[name.strip() for name in text.split(",") if name.strip()] for text in arguments.host]
    had_authority = authority_file(directory).exists()
    days = DAYS if arguments.days is None else arguments.days
    made = make_certificates(directory, [named for named in hosts if named], days=days, renew=arguments.renew)
    print(f"{authority_file(directory)}  {'the CA that was there' if had_authority else 'a new CA'}")
    for one in made:
        print(
            f"{one.files.certificate}  {f'valid for {days} days' if one.is_new else 'was there (--renew replaces it)'}"
        )
    if not had_authority:
        print(_ADVICE)
    return 0
