//! Owns a log as a person pasted it: the raw text, clean lines that are harmless to print and easy to match, and
//! the way back from a clean line to the raw one. Knows nothing of entries or the screen.
