"""Doors to other packages' formats, one file each; nothing inside mechgap imports these."""
