"""The one intermediate form of placed code: Program, control flow, dataflow, text."""
