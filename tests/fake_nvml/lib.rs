//! A fake NVIDIA driver library for the tests.
