"""Why the emulated machine's tests can't notice that a place is left out: file and code of the place, as leave_out.py --list shows them."""
REASONS = {}
