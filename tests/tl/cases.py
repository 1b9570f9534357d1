"""Programs that are exported to TransformerLens in tests: parameters, texts, the longest sequence, and layers."""

SUMS = [f"{a}+{b}" for a in (0, 7, 58, 409, 9999) for b in (3, 96, 500, 9999)]
CASES = {
    "parity_sequential_relative": ({}, ["1", "0110", "101110010", "11111111111"], 12, 12),
    "parity_sequential_absolute": ({"positions": 16}, ["1", "0110", "101110010", "1111111111111111"], 16, 15),
    "addition": ({}, SUMS, 11, 7),
    "dyck_1": ({}, ["()", "(()())", "))((", "()()(("], 7, 6),
    "dyck_2": ({"depth": 3}, ["[]", "([]())", "[)", "[[(]]"], 7, 6),
    "reverse": ({"length": 6}, ["3 1 2", "1", "9 9 8 1 2 3"], 7, 3),
    "scan_parser": ({}, ["jump twice after walk", "walk"], 16, 19),
}
