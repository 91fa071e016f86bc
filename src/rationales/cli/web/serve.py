"""`rationales serve`: the web page."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer
from typer import Option

from rationales.cli import shared
from rationales.cli.app import clean_exit
from rationales.cli.streams import import_gradio, import_torch, prepare_libraries
from rationales.errors import ModelError, OptionError

MEGABYTE = 1_000_000
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@clean_exit
def serve(
    host: Annotated[str, Option(help="The address to listen at; 0.0.0.0 for every network.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 7860,
    model: Annotated[
        list[str] | None,
        Option("--model", "-m", help="A Hugging Face id or a folder to offer beside the models of the package."),
    ] = None,
    auth: Annotated[
        str | None,
        Option(
            help="Ask for this user and password.", metavar="USER:PASSWORD", envvar="RATIONALES_AUTH", show_envvar=True
        ),
    ] = None,
    time_limit: Annotated[float, Option(min=1.0, help="Seconds that one request may run.")] = 300.0,
    queue: Annotated[int, Option(min=1, help="Requests that may wait.")] = 50,
    max_characters: Annotated[int, Option(min=1, help="Characters of a text.")] = 20_000,
    max_upload: Annotated[float, Option(min=0.01, help="Megabytes of an image or a sound.")] = 10.0,
    max_rows: Annotated[int, Option(min=1, help="Rows of a table.")] = 200,
    device: shared.Device = None,
    trust_remote_code: shared.Trust = False,
) -> None:
    """Serve a web page to explain texts, images and sounds in a browser, until Ctrl-C.

    It needs pip install 'rationales[serve]'. Nothing is fetched from elsewhere, and what a visitor sends is kept in
    memory for that visitor alone. There is no encryption: for a network that you do not trust, put a proxy in front.

    [bold]Examples[/bold]

      rationales serve

      rationales serve --model ./nli --port 8080

      RATIONALES_AUTH=anna:secret rationales serve --host 0.0.0.0
    """
    if find_spec("gradio") is None:
        raise ModelError("the web page needs Gradio, which is not installed: pip install 'rationales[serve]'")
    login = _login(auth)
    prepare_libraries()
    from rationales.report.terminal.progress import waiting

    with waiting("loading"):
        import_torch()
        import_gradio()
        from rationales.app.limits import Limits
        from rationales.app.model_choices import ModelChoices
        from rationales.app.service import ExplainService
        from rationales.app.web.server import address_of, bound_socket, make_server, run_server

        limits = Limits(
            characters=max_characters,
            upload_bytes=int(max_upload * MEGABYTE),
            table_rows=max_rows,
            seconds=time_limit,
            queue=queue,
        )
        listener = bound_socket(host, port)
        service = ExplainService(ModelChoices(model or [], device, trust_remote_code), limits)
        server = make_server(service, host, login)
        listener.listen()  # a browser that comes at once waits
    if host not in LOOPBACK and login is None:
        typer.echo("warning: everyone who can reach this machine can use the page; give --auth USER:PASSWORD", err=True)
    typer.echo(f"the page is at {address_of(listener)} ; Ctrl-C ends it", err=True)
    run_server(server, service, listener)


def _login(auth: str | None) -> tuple[str, str] | None:
    """User and password, or None without --auth."""
    if auth is None:
        return None
    user, separator, password = auth.partition(":")
    if not (user and separator and password):
        raise OptionError("--auth is USER:PASSWORD, with a colon between them and neither empty")
    return user, password
