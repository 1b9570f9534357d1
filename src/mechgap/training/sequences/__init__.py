"""Training on sequences: MLPs from the traces of ALTA programs, and whole Transformers end to end."""
