//! What takes minutes, or hours if it is asked to: `README.md` says what each proves, and how long it takes.

mod complexity;
mod crowds;
mod histories;
mod storm;
