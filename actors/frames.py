"""What goes between processes beside envelopes: one byte before one, or in its place."""

from __future__ import annotations

NO_ANSWER = b""
TOLD = b"\x00"
"""Stands before a message that is told: it is acknowledged once it lies in the mailbox."""
BUSY = b"\x01"
"""Answers what found no room: it was not done, and comes again."""
REFUSED = b"\x02"
"""Stands before the reason why a request was refused. No encoded envelope begins with these."""
CALLS_MAX = 128
"""Requests under way at once, of a client and of a server; the rest wait their turn."""
