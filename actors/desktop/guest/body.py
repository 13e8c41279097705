"""The body of a request: JSON, a form, or a form with files."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

from envs_node.actors.desktop.guest.answer import Fields


def parse_body(content_type: str, body: bytes) -> Fields:
    """The fields of a request.

    Raises:
        ValueError: it is none.
    """
    if content_type.startswith("multipart/form-data"):
        # Here, since few requests need it and every desktop pays for what is loaded.
        import email.parser
        import email.policy

        head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        fields: Fields = {}
        for part in message.iter_parts():
            data = part.get_payload(decode=True)
            if not isinstance(data, bytes):
                raise ValueError("a part of the form has parts of its own")
            name = str(part.get_param("name", header="content-disposition"))
            fields[name] = data if part.get_filename() else data.decode()
        return fields
    if content_type.startswith("application/x-www-form-urlencoded"):
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}
    fields = json.loads(body) if body.strip() else {}
    if not isinstance(fields, dict):
        raise ValueError("the body is no JSON object")
    return fields
