"""Texts of sources, in which `${{ env.NAME || 'default' }}` stands for a variable.

>>> filled("https://${{ env.HOST || 'localhost' }}/cities.csv", {})
'https://localhost/cities.csv'
"""

import re
from collections.abc import Mapping

from icestream.errors import InvalidInputError

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_VARIABLE = re.compile(r"env\.([A-Za-z_]\w*)", re.ASCII)
_LITERAL = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with its expressions replaced: the first alternative that has a value.

    Raises:
        InvalidInputError: A variable is not set and has no default, or an expression has another
            form.
    """
    return _EXPRESSION.sub(lambda match: _value(match[1], variables), text)


def _value(expression: str, variables: Mapping[str, str]) -> str:
    alternatives = [part.strip() for part in expression.split("||")]
    for alternative in alternatives:
        if literal := _LITERAL.fullmatch(alternative):
            return literal[1] if literal[1] is not None else literal[2]
        variable = _VARIABLE.fullmatch(alternative)
        if variable is None:
            raise InvalidInputError(
                f"{alternative!r} is no expression of a source; write env.NAME or 'text'"
            )
        if variable[1] in variables:
            return variables[variable[1]]
    raise InvalidInputError(
        f"the source needs {' or '.join(alternatives)}; set the variable, "
        "or give a default with || 'text'"
    )
