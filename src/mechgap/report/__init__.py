"""Stage 6: results -> tables, pictures and one self-contained HTML page."""
