//! The Python module `trilane._core`.
