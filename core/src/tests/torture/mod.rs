//! What takes minutes; the other torture is in `tests/torture`, and its `README.md` says what each proves.

mod statistics;
