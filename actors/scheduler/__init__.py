"""Which task a free desktop works on."""
