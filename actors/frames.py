"""What goes between processes beside envelopes: one byte before one, or in its place."""

from __future__ import annotations

NO_ANSWER = b""
TOLD = b"\x00"
"""Stands before a message that is told: it is acknowledged once it lies in the mailbox."""
BUSY = b"\x01"
"""Answers what found no room: it was not done, and comes again."""
REFUSED = b"\x02"
"""Stands before the reason why a request was refused. No encoded envelope begins with these."""
ASKED_MAX = 128
"""Requests under way at once to one node; the rest wait their turn."""
ANSWERED_MAX = 256
"""Requests under way at once at a node; the rest are left with those who send them."""
