"""HTML pages from jinja2 templates, in which every text is escaped."""

import base64
import pathlib

import jinja2

from kdkit.reporting.formatting import NOT_RUN
from kdkit.reporting.tables import NO_NUMBER


def render_page(template: str, **values) -> str:
    """Returns a whole HTML document that loads nothing from elsewhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["nbsp"] = _with_units
    environment.filters["data_uri"] = _data_uri
    environment.globals.update(not_run=NOT_RUN, no_number=NO_NUMBER)
    return environment.get_template(template).render(**values)


def _with_units(text):
    """Keeps numbers on the line of their unit."""
    return text.replace(" %", "\u00a0%")


def _data_uri(svg):
    return (
        f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    )
