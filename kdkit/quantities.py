"""Times and sizes as people say them."""


def duration(seconds: float) -> str:
    """Returns a span of time in the two units that matter.

    >>> duration(4.23), duration(75), duration(5000)
    ('4.2 s', '1 min 15 s', '1 h 23 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def byte_size(size: float) -> str:
    """Returns a size as people say it.

    >>> byte_size(57_400_000), byte_size(2.5e9)
    ('57 MB', '2.5 GB')
    """
    if size < 1e9:
        return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.1f} GB"
