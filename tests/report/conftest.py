import pytest
from tests.report.browser import PROGRAM, Page


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no Chromium on this machine")
    page = Page(tmp_path_factory.mktemp("profile"))
    yield page
    page.close()
