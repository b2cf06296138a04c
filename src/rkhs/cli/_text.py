"""Text for people: sizes, and strings that cannot harm a terminal."""


def printable(text: str) -> str:
    """The text with control characters, which a stranger's file may hold, written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """The text on one line."""
    return printable(" ".join(text.split()))


def size(n_bytes: float) -> str:
    """Bytes with three digits and their unit."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.1f} GB"
