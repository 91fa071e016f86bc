"""A service, and a server around it; without Gradio or Pillow these tests are left out."""

from __future__ import annotations

import pytest

pytest.importorskip("gradio", reason="the web page needs the extra serve")
pytest.importorskip("PIL")


@pytest.fixture(scope="session")
def service():
    from web_samples import make_service

    return make_service()


@pytest.fixture(scope="module")
def server():
    """(address, service) of a running server."""
    from web_samples import make_service

    from rationales.app.web.server import background_server

    served = make_service()
    with background_server(served) as address:
        yield address, served
