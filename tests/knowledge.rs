//! Every entry judged by the shipped engine.
