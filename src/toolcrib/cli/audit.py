"""`toolcrib audit`."""
import click
@click.group()
def audit() -> None:
    """Read, check and export the record of calls."""
